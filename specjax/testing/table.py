"""A target that is a table of logits, with a real cache: exact laws, tiny programs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from specjax.model import Model
from specjax.testing import toy_text
from specjax.types import Array, TargetOutput


@dataclasses.dataclass(frozen=True)
class TableTarget:
  """The next token's law depends on the last two tokens, or on the last one.

  params is float32[V, V, V], logits by [token before, token], or float32[V, V] by
  [token]. The token before the text's first one counts as 0.

  The cache int32[B, S] holds the scored tokens, and each row finds the token before its
  own there, so that a wrong rollback or a stale slot gives a wrong law. Writes past its
  end are moved back by `dynamic_update_slice`, as in a real cache. Every feature layer
  is the one-hot of the scored token.
  """

  vocab_size: int
  max_positions: int = 2**20

  def init_cache(self, batch: int, slots: int) -> Array:
    """Slots that hold token 0."""
    return jnp.zeros((batch, slots), jnp.int32)

  def __call__(
    self, params, tokens, positions, cache, *, slots, ancestors, logits_at, features_at
  ) -> TargetOutput:
    """See `specjax.types.Target`."""
    cache = _write(cache, tokens, slots)
    parent = slots[:, None] + _parents(tokens.shape[1], ancestors)
    before = jnp.take_along_axis(cache, parent, axis=1, mode='clip')
    before = jnp.where(positions == 0, 0, before)
    one_hot = jax.nn.one_hot(tokens, self.vocab_size)
    if logits_at is not None:
      pick = lambda x: jnp.take_along_axis(x, logits_at, axis=1)
      before, tokens = pick(before), pick(tokens)
    return TargetOutput(
      logits=params[tokens] if params.ndim == 2 else params[before, tokens],
      features=dict.fromkeys(features_at, one_hot),
      cache=cache,
    )

  def keep_path(self, cache: Array, start: Array, path: Array) -> Array:
    """See `specjax.types.Target`."""
    index = start[:, None] + 1 + path
    kept = jnp.take_along_axis(cache, index, axis=1, mode='clip')
    return _write(cache, kept, start + 1)


def _write(cache: Array, new: Array, start: Array) -> Array:
  put = lambda row, x, slot: jax.lax.dynamic_update_slice(row, x, (slot,))
  return jax.vmap(put)(cache, new, start)


def _parents(window: int, ancestors: Array | None) -> Array:
  """Each row's nearest ancestor in the window, int32[B or 1, T]; -1: the slot before.

  Parents stand before their children, so the nearest ancestor is the last one.
  """
  index = jnp.arange(window)
  if ancestors is None:
    return index[None] - 1
  above = ancestors & (index < index[:, None])
  return jnp.max(jnp.where(above, index, -1), axis=-1)


def table_model(vocab_size: int, seed: int = 0) -> Model:
  """A random table over the last two tokens, sharp enough to draft for.

  Its tokens are the first bytes of the toy tokenizer, and none stops.
  """
  logits = 2 * np.random.default_rng(seed).normal(size=(vocab_size,) * 3)
  params = jnp.asarray(logits, jnp.float32)
  tokenizer = dataclasses.replace(toy_text.toy_tokenizer(), stop_ids=())
  return Model(TableTarget(vocab_size), params, tokenizer, f'table-{vocab_size}')
