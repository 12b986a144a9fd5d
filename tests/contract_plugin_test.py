"""pytest --drafter and --verifier: what they test, or why they cannot."""

import os
import pathlib
import subprocess
import sys

import pytest

from specjax.testing import subjects
from specjax.testing.table import table_model

ROOT = pathlib.Path(__file__).parent.parent


def module(directory, monkeypatch, name: str, text: str) -> str:
  (directory / f'{name}.py').write_text(text)
  monkeypatch.syspath_prepend(directory)
  return name


class TestSubjects:
  def test_defaults_and_the_vocabulary_size(self, tmp_path, monkeypatch):
    text = (
      'import dataclasses\n\n'
      '@dataclasses.dataclass(frozen=True)\n'
      'class Drafter:\n'
      '  vocab_size: int\n'
      '  num_draft: int = 2\n\n'
      '  def init_params(self, key, target):\n'
      '    return target.vocab_size\n'
    )
    name = module(tmp_path, monkeypatch, 'with_defaults', text)
    drafter, params = subjects.drafter(name).make(table_model(5))
    assert (drafter.vocab_size, drafter.num_draft, params) == (5, 2, 5)

  def test_an_example_goes_first(self, tmp_path, monkeypatch):
    text = 'def example(model): return 1, 2\ndef load(model, x): pass\n'
    name = module(tmp_path, monkeypatch, 'with_example', text)
    assert subjects.drafter(name).make(None) == (1, 2)

  def test_names_of_our_own(self):
    assert subjects.drafter('prompt_lookup').make(table_model(5))[1] is None
    assert subjects.verifier('gumbel').make().shared_noise

  @pytest.mark.parametrize(
    'text, message',
    [
      (
        'def load(model, *, path): pass\n',
        r'load.., which needs.*\n.*example\(m',
      ),
      ('x = 1\n', 'neither example.. nor Drafter'),
      ('class Drafter:\n  def __init__(self, rates, k=1): pass\n', 'needs rates'),
    ],
  )
  def test_what_is_missing_is_said(self, text, message, tmp_path, monkeypatch):
    name = module(tmp_path, monkeypatch, f'missing_{len(text)}', text)
    with pytest.raises(ValueError, match=message):
      subjects.drafter(name)

  def test_no_such_module(self):
    with pytest.raises(ValueError, match='--verifier=gone.away: there is no such'):
      subjects.verifier('gone.away')

  def test_an_import_inside_the_module_that_fails_is_shown(self, tmp_path, monkeypatch):
    name = module(tmp_path, monkeypatch, 'imports_nothing', 'import gone_away\n')
    with pytest.raises(ModuleNotFoundError, match='gone_away'):
      subjects.drafter(name)


def pytest_in(directory, *arguments: str) -> str:
  """Output of pytest in a project of its own, where specjax is installed."""
  (directory / 'their_test.py').write_text(
    'import sys\n\ndef test_theirs():\n  assert "jax" not in sys.modules\n'
  )
  (directory / 'pytest.ini').write_text('[pytest]\npython_files = *_test.py\n')
  plugin = ['-m', 'pytest', '-p', 'specjax_pytest', '-p', 'no:cacheprovider', '-q']
  done = subprocess.run(
    [sys.executable, *plugin, '-W', 'error', *arguments],
    cwd=directory,
    env=os.environ | dict(PYTHONPATH=str(ROOT)),
    capture_output=True,
    text=True,
  )
  return done.stdout + done.stderr


class TestCommandLine:
  def test_other_projects_are_left_alone(self, tmp_path):
    assert '1 passed' in pytest_in(tmp_path)

  def test_named_tests_run_instead_of_the_contract(self, tmp_path):
    assert '1 passed' in pytest_in(tmp_path, '--drafter=oracle', 'their_test.py')

  def test_each_of_several_modules_is_a_subject_of_every_test(self, tmp_path):
    given = '--verifier=greedy,gumbel', '--verifier=block', '--drafter=prompt_lookup'
    out = pytest_in(tmp_path, '--collect-only', *given)
    assert 'their_test' not in out
    for name in ('greedy', 'gumbel', 'block'):
      assert f'test_output_has_the_law_of_the_target[{name}]' in out
    assert 'test_drafts_are_well_formed[prompt_lookup]' in out

  def test_a_wrong_name_is_one_line(self, tmp_path):
    out = pytest_in(tmp_path, '--drafter=nowhere')
    assert '--drafter=nowhere: there is no such module' in out
    assert 'Traceback' not in out
