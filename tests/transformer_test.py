"""The target against itself: cached or not, chains or trees, short or long buffers."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from specjax import trees
from specjax.targets import kv_cache, transformer

pytestmark = pytest.mark.usefixtures('compile_quickly')
CFG = transformer.TransformerConfig(61, 32, 64, 2, 4, 2, 8, 1024)


@pytest.fixture(scope='module')
def model():
  return transformer.build(CFG)


def _score(model, tokens, cache, slots, ancestors=None, positions=None):
  """All logits of a window [B, T] written at slots [B]."""
  target, params = model
  if positions is None:
    positions = slots[:, None] + jnp.arange(tokens.shape[1])
  return _call(target, params, tokens, positions, cache, slots, ancestors)


@functools.partial(jax.jit, static_argnums=0)
def _call(target, params, tokens, positions, cache, slots, ancestors):
  where = dict(slots=slots, ancestors=ancestors, logits_at=None, features_at=(0, 2))
  return target(params, tokens, positions, cache, **where)


def _tokens(*shape, seed=0):
  return jnp.array(np.random.default_rng(seed).integers(0, CFG.vocab_size, shape))


def _close(a, b):
  np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_windows_of_any_size_give_the_logits_of_one_pass(model):
  tokens = _tokens(2, 300)
  whole = _score(model, tokens, model[0].init_cache(2, 300), jnp.zeros(2, int))
  cache, pieces, start = model[0].init_cache(2, 600), [], 0
  for size in (1, 5, 250, 1, 43):  # crosses the boundary between two blocks
    at = jnp.full(2, start)
    out = _score(model, tokens[:, start : start + size], cache, at)
    cache, start = out.cache, start + size
    pieces.append(out.logits)
  _close(jnp.concatenate(pieces, axis=1), whole.logits)


def test_rows_at_different_lengths_do_not_see_each_other(model):
  tokens = _tokens(2, 40)
  alone = [
    _score(model, tokens[i : i + 1], model[0].init_cache(1, 40), jnp.zeros(1, int))
    for i in range(2)
  ]
  cache = model[0].init_cache(2, 64)
  cache = _score(model, tokens[:, :30], cache, jnp.zeros(2, int)).cache
  # Row 0 goes on from 30; row 1 is rolled back to 10 and scores its tokens again.
  window = jnp.stack([tokens[0, 30:35], tokens[1, 10:15]])
  out = _score(model, window, cache, jnp.array([30, 10]))
  _close(out.logits[0], alone[0].logits[0, 30:35])
  _close(out.logits[1], alone[1].logits[0, 10:15])


def test_only_the_rows_asked_for(model):
  tokens = _tokens(2, 7)
  target, params = model
  where = dict(slots=jnp.zeros(2, int), ancestors=None, features_at=())
  call = lambda at: target(
    params,
    tokens,
    jnp.tile(jnp.arange(7), (2, 1)),
    target.init_cache(2, 8),
    logits_at=at,
    **where,
  )
  rows = jnp.array([[6, 2], [0, 3]])
  every = call(None).logits
  _close(call(rows).logits, jnp.take_along_axis(every, rows[..., None], axis=1))
  assert call(jnp.zeros((2, 0), int)).logits.shape == (2, 0, CFG.vocab_size)


def test_features_are_the_stream_after_so_many_layers(model):
  tokens = _tokens(1, 3)
  out = _score(model, tokens, model[0].init_cache(1, 8), jnp.zeros(1, int))
  embedding = model[1]['embedding'][...]
  _close(out.features[0][0], embedding[:, tokens[0]].T)
  assert out.features[2].shape == (1, 3, CFG.hidden_size)
  assert set(out.features) == {0, 2}


def test_a_branching_tree_scores_each_path_as_a_chain_would(model):
  parents = jnp.array([[-1, -1, 0, 2]] * 2)
  ancestors = trees.ancestors(parents)
  prefix, window = _tokens(2, 20), _tokens(2, 5, seed=1)
  start = jnp.array([20, 20])
  first = _score(model, prefix, model[0].init_cache(2, 64), jnp.zeros(2, int))
  positions = start[:, None] + trees.depths(ancestors)
  tree = _score(model, window, first.cache, start, ancestors, positions)
  for path in ([0, 1, 3, 4], [0, 2]):
    chain = _score(model, window[:, jnp.array(path)], first.cache, start)
    _close(tree.logits[:, jnp.array(path)], chain.logits)

  kept = kv_cache.keep_path(tree.cache, start, jnp.array([[0, 2, 3]] * 2))
  chain = _score(model, window[:, jnp.array([0, 1, 3, 4])], first.cache, start)
  for ours, theirs in zip(jax.tree.leaves(kept), jax.tree.leaves(chain.cache)):
    _close(ours[:, :, :24], theirs[:, :, :24])


def test_cost_follows_the_used_length_not_the_buffer(model):
  """Slots past the used blocks are never read: poison there changes nothing."""
  tokens = _tokens(1, 200)
  clean = model[0].init_cache(1, 1024)
  poisoned = jax.tree.map(lambda x: x.at[:, :, 256:].set(jnp.nan), clean)
  at = jnp.zeros(1, int)
  _close(
    _score(model, tokens, poisoned, at).logits, _score(model, tokens, clean, at).logits
  )


def test_float64_where_the_weights_are(model):
  tokens = _tokens(1, 30)
  narrow = _score(model, tokens, model[0].init_cache(1, 32), jnp.zeros(1, int))
  with jax.enable_x64(True):
    target, params = model
    wide = target, jax.tree.map(lambda x: x.astype(jnp.float64), params)
    at = jnp.zeros(1, int)
    whole = _score(wide, tokens, target.init_cache(1, 32), at)
    start = _score(wide, tokens[:, :17], target.init_cache(1, 32), at)
    rest = _score(wide, tokens[:, 17:], start.cache, at + 17)
    np.testing.assert_allclose(
      rest.features[2], whole.features[2][:, 17:], rtol=1e-12, atol=1e-13
    )
  _close(narrow.logits, whole.logits)


class TestFirstLayers:
  def test_logits_and_cache_are_those_of_a_model_with_so_many_layers(self, model):
    target, params = model
    tokens, at = _tokens(2, 9), jnp.zeros(2, int)
    cfg = dataclasses.replace(CFG, num_layers=1)
    small, own = transformer.build(cfg, seed=5)
    flat = dict(nnx.to_flat_state(params))
    same = nnx.from_flat_state(
      [(path, flat[path]) for path, _ in nnx.to_flat_state(own)]
    )
    call = lambda target, params, cache: target(
      params,
      tokens,
      jnp.tile(jnp.arange(9), (2, 1)),
      cache,
      slots=at,
      ancestors=None,
      logits_at=None,
      features_at=(1,),
    )
    want = call(small, same, small.init_cache(2, 16))
    whole = target.init_cache(2, 16)
    whole = jax.tree.map(lambda x: x + 7, whole)
    got = call(
      target.first_layers(1), target.first_params(params, 1), kv_cache.first(whole, 1)
    )
    np.testing.assert_array_equal(got.logits, want.logits)
    both = kv_cache.replace_first(whole, got.cache)
    assert both.keys[0] is got.cache.keys[0] and both.values[0] is got.cache.values[0]
    assert both.keys[1] is whole.keys[1] and both.values[1] is whole.values[1]
    np.testing.assert_array_equal(both.keys[0][:, :, :9], want.cache.keys[0][:, :, :9])

  def test_weights_are_shared_and_equal_cuts_are_equal_static_arguments(self, model):
    target, params = model
    cut = target.first_params(params, 1)
    assert len(cut['layers']) == 1
    for path, leaf in nnx.to_flat_state(cut):
      assert leaf.get_value() is dict(nnx.to_flat_state(params))[path].get_value()
    assert hash(target.first_layers(1)) == hash(target.first_layers(1))
    assert target.first_layers(1) == target.first_layers(1)

  @pytest.mark.parametrize('wanted', [0, 2, 3])
  def test_only_a_real_cut(self, model, wanted):
    with pytest.raises(ValueError, match=f'of 2 layers to its first {wanted}'):
      model[0].first_layers(wanted)
