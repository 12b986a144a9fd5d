"""Teacher forcing, and the comparison of a method's output with the baseline's."""

import dataclasses
import json

import numpy as np
import pytest

import specjax
from configs.experiments.identity import get_config
from experiments import identity, teacher_forcing
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.testing import tiny

pytestmark = pytest.mark.usefixtures('compile_quickly')

PROMPTS = [[1, 2, 3], [5, 6] * 10, [7]]


@pytest.fixture(scope='module')
def model():
  return tiny.tiny_model()


@pytest.fixture(scope='module')
def outputs(model):
  rows = specjax.decode(
    model, PROMPTS, drafter=PromptLookup(), max_new_tokens=[9, 14, 3]
  )
  return [row.tokens for row in rows]


class TestTeacherForcing:
  @pytest.mark.parametrize('width', [1, 6])
  def test_greedy_output_is_certified(self, model, outputs, width):
    forced = teacher_forcing.certify(
      model.target, model.params, PROMPTS, outputs, width
    )
    for row, output in zip(forced, outputs, strict=True):
      assert row.best.tolist() == output
      assert np.all(row.gap == 0)

  @pytest.mark.parametrize('width', [1, 6])
  @pytest.mark.parametrize('row, column', [(0, 8), (1, 0), (1, 13), (2, 1)])
  def test_a_corrupted_token_is_flagged(self, model, outputs, width, row, column):
    corrupted = [list(output) for output in outputs]
    corrupted[row][column] = (corrupted[row][column] + 1) % 256
    forced = teacher_forcing.certify(
      model.target, model.params, PROMPTS, corrupted, width
    )
    assert forced[row].gap[column] > 1e-3
    assert forced[row].best[: column + 1].tolist() == outputs[row][: column + 1]
    for other in {0, 1, 2} - {row}:
      assert np.all(forced[other].gap == 0)

  def test_floor_is_rounding(self, model, outputs):
    floor = teacher_forcing.floor(model.target, model.params, PROMPTS, outputs, 6)
    assert floor.positions == sum(map(len, outputs))
    assert 0 <= floor.eps < 1e-4


class TestExamine:
  def batch(self, model, corrupt_at):
    good = specjax.decode(model, PROMPTS, max_new_tokens=12)
    tokens = list(good[1].tokens)
    tokens[corrupt_at] = (tokens[corrupt_at] + 1) % 256
    bad = dataclasses.replace(good[1], tokens=tokens)
    return identity.Batch(PROMPTS, good, [good[0], bad, good[2]])

  def test_a_wrong_token_is_found_and_not_certified(self, model):
    (difference,) = identity.examine(model, self.batch(model, 7), eps=1e-5)
    assert difference.first_difference == 7
    assert difference.prompt_tokens == len(PROMPTS[1])
    assert difference.flips >= 1
    assert difference.largest_gap > 2e-5
    assert not difference.certified

  def test_a_near_tie_is_certified(self, model):
    (difference,) = identity.examine(model, self.batch(model, 11), eps=100.0)
    assert difference.flips == 1
    assert difference.certified


def test_run_reports_a_lossless_method_as_identical(tmp_path, monkeypatch):
  monkeypatch.setattr(specjax, 'load', lambda source: tiny.tiny_model())
  turns = 'abcabcabcabc', 'to be or not to be', 'one two'
  lines = [
    json.dumps({'question_id': i, 'category': 'qa', 'turns': [turn]})
    for i, turn in enumerate(turns)
  ]
  (tmp_path / 'prompts.jsonl').write_text('\n'.join(lines))
  config = get_config()
  config.prompts = str(tmp_path / 'prompts.jsonl')
  config.max_new_tokens, config.batch_size, config.floor_positions = 16, 3, 10
  identity.run(config, tmp_path)
  report = json.loads((tmp_path / 'identity.json').read_text())
  assert report['prompts'] == report['rows_identical'] == 3
  assert 3 <= report['tokens'] <= 3 * 16
  assert report['all_certified'] and report['flips'] == 0
  assert report['eps_positions'] >= 10
  assert '| rows_identical ' in (tmp_path / 'table.md').read_text()
