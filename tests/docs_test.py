"""The tutorial's drafter runs, keeps the contract and is short."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PAGE = ROOT / 'docs' / 'new_drafter.md'


@pytest.fixture(scope='module')
def blocks() -> list[str]:
  return re.findall(r'```python\n(.*?)```', PAGE.read_text(), re.DOTALL)


def run(directory: pathlib.Path, *command: str) -> str:
  """What a command prints in a directory from which specjax alone is found."""
  env = os.environ | dict(PYTHONPATH=str(ROOT))
  done = subprocess.run(
    [sys.executable, *command], cwd=directory, env=env, capture_output=True, text=True
  )
  assert done.returncode == 0, done.stdout + done.stderr
  return done.stdout


def test_the_drafter_keeps_the_contract(blocks, tmp_path):
  assert len(blocks[0].splitlines()) < 80
  (tmp_path / 'last_seen.py').write_text(blocks[0])
  plugin = 'pytest', '-p', 'specjax_pytest', '-p', 'no:cacheprovider', '-q'
  out = run(tmp_path, '-m', *plugin, '-W', 'error', '--drafter=last_seen')
  assert re.search(r'^10 passed, 1 skipped', out, re.MULTILINE), out  # it draws nothing


def test_the_drafter_decodes(blocks, tmp_path):
  (tmp_path / 'last_seen.py').write_text(blocks[0])
  out = run(tmp_path, '-c', blocks[1])
  assert float(re.match(r'tau (\S+) in', out)[1]) > 1
