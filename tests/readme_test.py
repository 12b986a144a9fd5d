"""The README's Python runs as it stands there."""

import pathlib
import re

import pytest

import specjax

README = pathlib.Path(__file__).parent.parent / 'README.md'
EXAMPLES = re.findall(r'```python\n(.*?)```', README.read_text(), re.DOTALL)

pytestmark = [pytest.mark.real, pytest.mark.usefixtures('compile_quickly')]


@pytest.fixture(scope='module')
def names() -> dict:
  """What the first example leaves defined: the others go on from there."""
  return {}


def run(example: str, names: dict) -> None:
  exec(compile(example, 'README.md', 'exec'), names)  # noqa: S102


def test_the_first_example(names, capsys):
  assert len(EXAMPLES[0].strip().splitlines()) <= 10
  run(EXAMPLES[0], names)
  lines = capsys.readouterr().out.splitlines()
  plain, lookup = (line for line in lines if line.startswith('tau '))
  assert plain == 'tau 1.00 in 64 target calls'
  assert float(lookup.split()[1]) > 1


def test_drafters_that_are_models(names, monkeypatch):
  (example,) = EXAMPLES[1:]
  monkeypatch.setattr(specjax, 'load', lambda source: names['model'])
  run(example, names)
  done = names['done']
  assert done.drafted and 0 < len(done.tokens) <= 32 and '\n\n' not in done.text
