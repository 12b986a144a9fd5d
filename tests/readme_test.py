"""The README's Python runs as it stands there."""

import pathlib
import re

import pytest

README = pathlib.Path(__file__).parent.parent / 'README.md'


@pytest.mark.real
def test_the_library_example(capsys):
  (example,) = re.findall(r'```python\n(.*?)```', README.read_text(), re.DOTALL)
  assert len(example.strip().splitlines()) <= 10
  exec(compile(example, 'README.md', 'exec'), {})  # noqa: S102
  lines = capsys.readouterr().out.splitlines()
  plain, lookup = (line for line in lines if line.startswith('tau '))
  assert plain == 'tau 1.00 in 64 target calls'
  assert float(lookup.split()[1]) > 1
