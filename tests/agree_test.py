"""Two runs side by side, with numbers made by hand."""

import json
import math

import pytest
import rich.console

from experiments import agree


def row(method: str, speedup: float, error: float | None, **other) -> dict:
  own = dict(speedup_log_se_repeats=error) if method != 'baseline' else {}
  own |= dict(method=method, category='all', speedup=speedup, mean_accepted_length=1.5)
  return own | other


def keyed(*rows: dict) -> dict:
  return {(row['method'], row['category']): row for row in rows}


def test_rows_agree_within_the_error_of_their_difference():
  one = keyed(row('baseline', 1, None), row('near', 1.3, 0.01), row('far', 1.3, 0.01))
  two = keyed(row('baseline', 1, None), row('near', 1.27, 0.012), row('far', 1.2, 0.01))
  near, far = agree.compare(one, two)
  assert near['allowed'] == pytest.approx(1.96 * math.sqrt(0.01**2 + 0.012**2))
  assert near['apart'] == pytest.approx(math.log(1.3 / 1.27))
  assert near['apart'] < near['allowed'] and far['apart'] > far['allowed']
  console = rich.console.Console(quiet=True)
  assert not agree.show(console, [near, far])
  assert agree.show(console, [near] * 19 + [far])
  assert not agree.show(console, [near] * 18 + [far])


def test_what_cannot_be_compared_is_refused():
  one, other = keyed(row('near', 1.3, 0.01)), keyed(row('far', 1.3, 0.01))
  with pytest.raises(ValueError, match=r"not in both: \[\('far', 'all'\)"):
    agree.compare(one, other)
  with pytest.raises(ValueError, match='at least 2'):
    agree.compare(one, keyed(row('near', 1.3, None)))


def test_two_finished_runs_are_read(tmp_path):
  for name, speedup in (('a', 1.3), ('b', 1.31)):
    run = tmp_path / name
    run.mkdir()
    rows = [row('baseline', 1, None), row('near', speedup, 0.01)]
    (run / 'summary.json').write_text(json.dumps({'rows': rows}))
  with pytest.raises(SystemExit, match='no finished run'):
    agree.main(['agree', str(tmp_path / 'a'), str(tmp_path / 'b')])
  for name in 'ab':
    (tmp_path / name / 'done').touch()
  with pytest.raises(SystemExit) as ended:
    agree.main(['agree', str(tmp_path / 'a'), str(tmp_path / 'b')])
  assert ended.value.code == 0
