"""The table of what trees cost, and that its four ways do what they say."""

import json

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest

from configs.experiments import tree_cost as published
from experiments import tree_cost
from specjax import trees
from specjax.testing import tiny

pytestmark = pytest.mark.usefixtures('compile_quickly')

PATHS = ((0,), (1,), (0, 0), (1, 0), (1, 0, 0))  # kept: nodes 1, 3, 4
CASE = tree_cost.Case('bush', trees.from_paths(PATHS), 20, 256, 1)
MODEL = tiny.tiny_model()


def called(way: str):
  """Cache and greedy tokens behind 20 zeros of a cache and one call."""
  target = MODEL.target
  tokens = jnp.arange(1, 7)[None]
  shape = tree_cost.shape(CASE, way)
  static = target, 1, int(way == 'kept')
  cache, used = target.init_cache(1, 256), jnp.full(1, 20)
  return jax.device_get(
    tree_cost.calls(*static, MODEL.params, cache, tokens, used, shape)
  )


def test_a_grown_branch_is_scored_as_the_chain():
  (cache, tokens), (other, others) = called('chain'), called('branch')
  assert tokens.tolist() == others.tolist()
  np.testing.assert_allclose(cache.keys[1], other.keys[1], rtol=1e-4, atol=1e-5)


def test_keeping_moves_the_deepest_path_behind_the_root():
  (cache, tokens), (kept, same) = called('tree'), called('kept')
  assert tokens.tolist() == same.tolist()
  for before, after in zip(cache.values, kept.values):
    np.testing.assert_array_equal(after[:, :, :21], before[:, :, :21])
    moved = before[:, :, 21 + np.array([1, 3, 4])]
    np.testing.assert_array_equal(after[:, :, 21:24], moved)
    assert np.any(after[:, :, 21:24] != before[:, :, 21:24])


def test_run_writes_a_row_a_tree_and_place(tmp_path, monkeypatch):
  monkeypatch.setattr(tree_cost.specjax, 'load', lambda target: MODEL)
  config = ml_collections.ConfigDict(
    dict(target='tiny', trees=dict(bush=PATHS), repeats=2, steps=1)
  )
  config.places = ((20, 256, 1), (30, 256, 1))  # one program for both
  tree_cost.run(config, tmp_path)
  rows = json.loads((tmp_path / 'tree_cost.json').read_text())['rows']
  assert [(row['nodes'], row['used']) for row in rows] == [(5, 20), (5, 30)]
  for row in rows:
    assert row['chain_ms'] > 0 and row['keep_share'] < 1
    assert row['branch_to_chain'] > 0 and row['tree_to_chain'] > 0
  assert 'bush' in (tmp_path / 'table.md').read_text()
  config.places = ((251, 256, 1),)
  with pytest.raises(ValueError, match='251 used and 6 new tokens do not fit into 256'):
    tree_cost.run(config, tmp_path)


def test_ratios_are_paired_within_repeats():
  times = np.array([[1, 2, 3, 13], [10, 20, 30, 30], [2, 2, 8, 80]], float)
  row = tree_cost._row(CASE, times)
  assert (row.chain_ms, row.branch_to_chain, row.tree_to_chain) == (2.0, 2.0, 3.0)
  assert row.keep_share == 0.25  # (13 - 3) / 10 beside 3


def test_the_published_trees_have_16_and_63_nodes():
  config = published.get_config()
  nodes = {name: len(set(paths)) for name, paths in config.trees.items()}
  assert nodes == dict(branches=16, medusa=63)
  assert all(trees.from_paths(paths) for paths in config.trees.values())
