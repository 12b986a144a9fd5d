"""A language model that reads along with the target, for drafters made of one.

It keeps a cache of its own. `seen` counts the tokens whose keys and values are right
there; the slots behind them are free for what is drafted. A round starts by reading
what is committed and unseen, the last few tokens always: rewriting a slot with what it
holds is harmless, so full acceptance, rejection and rounds without a draft all leave
the cache right.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from specjax import buffers, trees
from specjax.types import Array, Context, PyTree, Tree, Window


@struct.dataclass
class ReaderState:
  """The model's own cache, and how far it is right."""

  cache: PyTree
  seen: Array  # int32[B]


@dataclasses.dataclass(frozen=True)
class Reader:
  """Reads with `model`, a `specjax.types.Target`; its weights are a drafter's own.

  `vocab_size` is the target's: columns of the model beyond it are padding and left
  out, missing ones are never drafted.
  """

  model: Any
  vocab_size: int

  def init(self, params, batch: int, max_len: int, room: int) -> ReaderState:
    """An empty cache, with room for that many drafted tokens behind the text.

    Raises:
      ValueError: no weights; a buffer longer than the model's context.
    """
    if params[0] is None:
      raise ValueError('draft_model needs its weights: pass drafter_params (see pair)')
    if max_len > self.model.max_positions:
      raise ValueError(
        f'the buffer holds {max_len} tokens and the draft model was made for '
        f'{self.model.max_positions}: pass max_len={self.model.max_positions} or less, '
        'or take another draft model'
      )
    slots = buffers.cache_slots(max_len, room)
    return ReaderState(
      cache=self.model.init_cache(batch, slots), seen=jnp.zeros(batch, jnp.int32)
    )

  def update(self, params, state: ReaderState, window: Window) -> ReaderState:
    """Reads the window where it follows what was read: a prompt, or an undrafted round.

    Behind a draft it does not: what of it was read and rejected is forgotten, and the
    next round reads the rest.
    """
    follows = (state.seen == window.start) & (window.count > 0)
    no_rows = jnp.zeros((len(follows), 0), jnp.int32)

    def read(cache):
      tokens = window.tokens[:, :-1]
      return self.read(params, tokens, window.start, cache, no_rows)[1]

    cache = buffers.when(jnp.any(follows), read, state.cache)
    end = window.start + window.count
    seen = jnp.where(follows, end, jnp.minimum(state.seen, end))
    return ReaderState(cache=cache, seen=seen)

  def catch_up(self, params, state: ReaderState, context: Context, width: int):
    """Reads the unseen text, `width` tokens at a time, the last ones in any case.

    Returns:
      Logits float[B, V] behind the text, and the cache.
    """
    last = context.length - 1

    def some(carry):
      seen, cache, _ = carry
      start = jnp.maximum(jnp.minimum(seen, context.length - width), 0)
      tokens = buffers.read(context.tokens, start, width)
      row = jnp.minimum(last - start, width - 1)[:, None]
      logits, cache = self.read(params, tokens, start, cache, row)
      return start + width, cache, logits[:, 0]

    unseen = lambda carry: jnp.any(carry[0] <= last)
    logits = jnp.zeros((last.shape[0], self.vocab_size), jnp.float32)
    carry = state.seen, state.cache, logits
    _, cache, logits = jax.lax.while_loop(unseen, some, carry)
    return logits, cache

  def read(self, params, tokens, start, cache, rows=None, tree: Tree | None = None):
    """Writes tokens int32[B, T] into the slots from start int32[B] on.

    They stand at the positions from start on; nodes of a tree, at their depths behind
    the token in the slot before.

    Returns:
      Logits float32[B, R, V] of rows int32[B, R] (None: all), and the cache.
    """
    offset, ancestors = jnp.arange(tokens.shape[1]), None
    if tree is not None and not trees.is_chain(tree):
      rooted = trees.ancestors(trees.parents(tree, len(tokens)))
      offset, ancestors = trees.depths(rooted)[:, 1:] - 1, rooted[:, 1:, 1:]
    out = self.model(
      params[0],
      jnp.minimum(tokens, self.model.vocab_size - 1),
      start[:, None] + offset,
      cache,
      slots=start,
      ancestors=ancestors,
      logits_at=rows,
      features_at=(),
    )
    return self._in_target_vocabulary(out.logits), out.cache

  def _in_target_vocabulary(self, logits: Array) -> Array:
    logits = logits[..., : self.vocab_size].astype(jnp.float32)
    missing = ((0, 0), (0, 0), (0, self.vocab_size - logits.shape[-1]))
    return jnp.pad(logits, missing, constant_values=-jnp.inf)
