"""The table of what sampling costs."""

import json

import ml_collections
import pytest

from configs.experiments import sampling_cost as published
from experiments import sampling_cost
from specjax.testing import tiny

pytestmark = pytest.mark.usefixtures('compile_quickly')


def test_every_case_gets_a_row_and_greedy_has_no_share(tmp_path, monkeypatch):
  monkeypatch.setattr(sampling_cost.specjax, 'load', lambda target: tiny.tiny_model())
  cases = (('gumbel', dict(temperature=1.0, top_p=0.9)),)
  config = ml_collections.ConfigDict(
    dict(target='tiny', windows=(1, 3), cases=cases, repeats=2, steps=2)
  )
  sampling_cost.run(config, tmp_path)
  rows = json.loads((tmp_path / 'sampling_cost.json').read_text())['rows']
  assert [(row['window'], row['verifier']) for row in rows] == [
    (1, 'greedy'),
    (1, 'gumbel'),
    (3, 'greedy'),
    (3, 'gumbel'),
  ]
  assert all(row['round_ms'] > 0 for row in rows)
  assert [row['share'] == 0 for row in rows] == [True, False] * 2
  assert 'top_p=0.9' in (tmp_path / 'table.md').read_text()


def test_the_published_config_measures_plain_and_drafted_rounds():
  assert published.get_config().windows == (1, 6)
