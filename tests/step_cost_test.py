"""The table of target-call costs."""

import ml_collections
import pytest

from experiments import step_cost
from specjax.testing import tiny

pytestmark = pytest.mark.usefixtures('compile_quickly')

CASES = [
  step_cost.Case(1, 20, 256, 1),
  step_cost.Case(4, 20, 256, 1),
  step_cost.Case(1, 300, 512, 2),
]


@pytest.fixture(scope='module')
def rows():
  model = tiny.tiny_model()
  return step_cost.cost_table(model.target, model.params, CASES, repeats=3, steps=2)


class TestCostTable:
  def test_a_row_for_each_case(self, rows):
    for case, row in zip(CASES, rows, strict=True):
      place = row.window, row.used, row.slots, row.batch
      assert place == (case.window, case.used, case.slots, case.batch)
      assert 0 < row.ms_min <= row.ms_median

  def test_one_token_costs_one(self, rows):
    assert all(row.ratio_to_one == 1 for row in rows if row.window == 1)

  @pytest.mark.parametrize(
    'cases, message',
    [
      ([step_cost.Case(4, 20, 256, 1)], 'add Case'),
      ([step_cost.Case(1, 20, 256, 1), step_cost.Case(1, 256, 256, 1)], 'do not fit'),
    ],
  )
  def test_impossible_cases_are_refused(self, cases, message):
    model = tiny.tiny_model()
    with pytest.raises(ValueError, match=message):
      step_cost.cost_table(model.target, model.params, cases)


def test_run_writes_what_load_reads(tmp_path, monkeypatch):
  monkeypatch.setattr(step_cost.specjax, 'load', lambda target: tiny.tiny_model())
  cases = ((1, 20, 256, 1), (4, 20, 256, 1))
  config = ml_collections.ConfigDict(
    dict(target='tiny', cases=cases, repeats=2, steps=2)
  )
  step_cost.run(config, tmp_path)
  rows = step_cost.load(tmp_path / 'step_cost.json')
  assert [row.window for row in rows] == [1, 4]
  assert f'{rows[1].ms_median:.2f}' in (tmp_path / 'table.md').read_text()
  assert (tmp_path / 'plots' / 'step_cost.pdf').exists()
