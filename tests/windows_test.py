"""Sliding windows in the cache: trees, blocks that no row reaches, shorter lengths."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import trees
from specjax.targets import kv_cache, transformer
from specjax.targets.config import LayerConfig

pytestmark = pytest.mark.usefixtures('compile_quickly')
REACH = 3
CFG = transformer.TransformerConfig(
  61, 32, 64, 2, 4, 2, 8, 1024, layers=(LayerConfig(REACH), LayerConfig())
)


@pytest.fixture(scope='module')
def model():
  return transformer.build(CFG)


@functools.partial(jax.jit, static_argnums=0)
def _call(target, params, tokens, positions, cache, slots, ancestors):
  where = dict(slots=slots, ancestors=ancestors, logits_at=None, features_at=(1,))
  return target(params, tokens, positions, cache, **where)


def _score(model, tokens, cache, slots, ancestors=None):
  depth = jnp.arange(tokens.shape[1])
  if ancestors is not None:
    depth = trees.depths(ancestors)
  return _call(*model, tokens, slots[:, None] + depth, cache, slots, ancestors)


def _tokens(*shape, seed=0):
  return jnp.array(np.random.default_rng(seed).integers(0, CFG.vocab_size, shape))


def _close(a, b):
  np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def _attend(start, window, reach, ancestors, slots):
  """Which slots each row of a window sees: values are one-hot, scores all equal."""
  positions = jnp.asarray(start)[:, None] + (
    jnp.arange(window) if ancestors is None else trees.depths(ancestors)
  )
  batch = len(start)
  values = jnp.tile(jnp.eye(slots)[None, None], (batch, 1, 1, 1))
  mixed = jax.jit(kv_cache.attend, static_argnames='reach')(
    jnp.zeros((batch, 1, 1, window, slots)),
    jnp.zeros((batch, 1, slots, slots)),
    values,
    jnp.asarray(start),
    ancestors,
    positions=positions,
    reach=reach,
  )
  return [[np.flatnonzero(row).tolist() for row in x[0, 0]] for x in np.asarray(mixed)]


def test_a_chain_sees_so_many_positions_its_own_included():
  assert _attend([5, 0], 3, 3, None, 256) == [
    [[3, 4, 5], [4, 5, 6], [5, 6, 7]],
    [[0], [0, 1], [0, 1, 2]],
  ]


def test_a_tree_counts_positions_not_slots():
  """Root at slot and position 5; its nodes a b (depth 1), c under b, d under c."""
  ancestors = trees.ancestors(jnp.array([[-1, -1, 1, 2]]))
  assert _attend([5], 5, 3, ancestors, 256) == [
    [[3, 4, 5], [4, 5, 6], [4, 5, 7], [5, 7, 8], [7, 8, 9]]
  ]


@pytest.mark.parametrize('nodes', [5, 70])
def test_a_node_sees_the_text_and_its_ancestors(nodes):
  """Within one block of slots, and across two."""
  rng, start = np.random.default_rng(nodes), [250, 3]
  parents = [[rng.integers(-1, node) for node in range(nodes)] for _ in start]
  ancestors = trees.ancestors(jnp.array(parents))
  assert _attend(start, nodes + 1, None, ancestors, 512) == [
    [[*range(at), *(at + np.flatnonzero(row))] for row in seen]
    for at, seen in zip(start, np.asarray(ancestors))
  ]


def test_a_tree_scores_each_path_as_a_chain_would(model):
  """Slots and positions differ: the paths go through every other node."""
  ancestors = trees.ancestors(jnp.array([[-1, -1, 0, 1, 2, 3, 4, 5]] * 2))
  prefix, window = _tokens(2, 20), _tokens(2, 9, seed=1)
  at = jnp.array([20, 11])  # the second row is rolled back
  first = _score(model, prefix, model[0].init_cache(2, 64), jnp.zeros(2, int))
  tree = _score(model, window, first.cache, at, ancestors)
  for path in ([0, 1, 3, 5, 7], [0, 2, 4, 6, 8]):
    chain = _score(model, window[:, jnp.array(path)], first.cache, at)
    _close(tree.logits[:, jnp.array(path)], chain.logits)


def test_blocks_below_the_window_are_not_read():
  cfg = dataclasses.replace(CFG, layers=(LayerConfig(300),) * 2)
  model = transformer.build(cfg)
  tokens = _tokens(2, 5)
  cache = jax.tree.map(lambda x: x + 0.1, model[0].init_cache(2, 700))
  poisoned = jax.tree.map(lambda x: x.at[:, :, :256].set(jnp.nan), cache)
  at = jnp.array([600, 555])  # the second row sees from slot 256 on
  clean = _score(model, tokens, cache, at)
  _close(_score(model, tokens, poisoned, at).logits, clean.logits)
  got = _score(model, tokens, poisoned, at - 1)  # from slot 255 on
  assert np.isnan(got.logits).any()


def test_features_see_what_their_layer_sees(model):
  """After one windowed layer a token knows REACH tokens, after both all."""
  tokens, cache, at = _tokens(1, 9), model[0].init_cache(1, 16), jnp.zeros(1, int)
  out = _score(model, tokens, cache, at)
  other = _score(model, tokens.at[0, 0].add(1), cache, at)
  moved = np.abs(out.features[1] - other.features[1]).max(axis=-1)[0] > 0
  assert moved.tolist() == [True] * REACH + [False] * 6
  assert np.all(np.abs(out.logits - other.logits).max(axis=-1) > 0)


def test_the_first_layers_keep_their_windows():
  assert CFG.first_layers(1).layers == (LayerConfig(REACH),)
  assert transformer.abstract(CFG)[0].first_layers(1).cfg == CFG.first_layers(1)
