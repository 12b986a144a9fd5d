"""Keys and values of the tokens scored so far, and attention over them.

Slot s of row b holds the token at position s, so a chain's rollback is a shorter length
and nothing else: slots past it are masked until they are written again. Layout
[B, KV, S, D]: [B, S, KV, D] makes XLA transpose the whole cache in every layer.
"""

import jax
import jax.numpy as jnp
from flax import struct

from specjax.targets import precision
from specjax.types import Array

BLOCK = 256  # slots attended to at once: cost follows the used length, not the buffer


@struct.dataclass
class KVCache:
  """One array a layer, so that a layer's write happens in place."""

  keys: tuple[Array, ...]  # L x float32[B, KV, S, D]
  values: tuple[Array, ...]


def empty(
  num_layers: int, batch: int, num_kv_heads: int, slots: int, head_dim: int, dtype
) -> KVCache:
  """Zeroed slots, rounded up to whole blocks."""
  shape = (batch, num_kv_heads, -(-slots // BLOCK) * BLOCK, head_dim)
  make = lambda: tuple(jnp.zeros(shape, dtype) for _ in range(num_layers))
  return KVCache(keys=make(), values=make())


def write(cache: Array, new: Array, start: Array) -> Array:
  """Puts new [B, KV, T, D] into slots start[b] .. start[b] + T - 1 of each row."""
  zero = jnp.zeros((), start.dtype)  # x64 would make int64 of a Python number
  put = lambda row, x, s: jax.lax.dynamic_update_slice(row, x, (zero, s, zero))
  return jax.vmap(put)(cache, new, start)


def keep_path(cache: KVCache, start: Array, path: Array) -> KVCache:
  """Moves slot start + 1 + path[:, d] to start + 1 + d, all depths at once.

  path 0 2 3 from slot 7: slots 8 9 10 receive what 8 10 11 hold.
  """
  index = (start[:, None] + 1 + path)[:, None, :, None]

  def move(x: Array) -> Array:
    return write(x, jnp.take_along_axis(x, index, axis=2, mode='clip'), start + 1)

  return jax.tree.map(move, cache)


def first(cache: KVCache, num_layers: int) -> KVCache:
  """The cache of the first layers, by reference."""
  return KVCache(cache.keys[:num_layers], cache.values[:num_layers])


def replace_first(cache: KVCache, shallow: KVCache) -> KVCache:
  """The cache with its first layers taken from `shallow`; the others stay."""
  count = len(shallow.keys)
  return KVCache(
    shallow.keys + cache.keys[count:], shallow.values + cache.values[count:]
  )


def attend(
  queries: Array,
  keys: Array,
  values: Array,
  start: Array,
  ancestors: Array | None,
  *,
  positions: Array,
  reach: int | None = None,
  softcap: float | None = None,
) -> Array:
  """Softmax attention of a window over its row's cache, [B, KV, G, T, D].

  Args:
    queries: [B, KV, G, T, D], scaled; G query heads share a key-value head.
    keys: [B, KV, S, D], the window's own already written.
    values: [B, KV, S, D].
    start: int32[B], the window's first slot.
    ancestors: bool[B, T, T], which window slots each row sees; None: a chain, that is
      itself and those before. Everything below `start` is seen.
    positions: int32[B, T], the window's; the first is `start`. Slots below `start`
      hold their own number.
    reach: a sliding window: how many positions a row sees, its own included.
    softcap: scores become softcap * tanh(scores / softcap).

  A loop over blocks with a running maximum and sum (online softmax) from the first
  block that a row of the batch reaches to the longest used length.
  """
  batch, kv_heads, groups, window, dim = queries.shape
  rows = queries.reshape(batch, kv_heads, groups * window, dim)

  def block(j, carry):
    top, total, mixed = carry
    k = jax.lax.dynamic_slice_in_dim(keys, j * BLOCK, BLOCK, axis=2)
    v = jax.lax.dynamic_slice_in_dim(values, j * BLOCK, BLOCK, axis=2)
    scores = capped(precision.einsum('bkqd,bksd->bkqs', rows, k), softcap)
    slots = j * BLOCK + jnp.arange(BLOCK)
    seen = _visible(slots, start, window, ancestors)
    if reach is not None:
      seen &= _within(slots, start, positions, ancestors, reach)
    seen = jnp.tile(seen, (1, groups, 1))[:, None]
    scores = jnp.where(seen, scores, -jnp.inf)
    new_top = jnp.maximum(top, jnp.max(scores, axis=-1, keepdims=True))
    weights = jnp.exp(scores - new_top)
    shrink = jnp.exp(top - new_top)
    total = total * shrink + jnp.sum(weights, axis=-1, keepdims=True)
    mixed = mixed * shrink + precision.einsum(
      'bkqs,bksd->bkqd', weights.astype(v.dtype), v
    )
    return new_top, total, mixed

  column = (batch, kv_heads, groups * window, 1)
  wide = precision.wide(values)
  lowest = jnp.full(column, jnp.finfo(wide).min, wide)
  carry = (lowest, jnp.zeros(column, wide), jnp.zeros(rows.shape, wide))
  used = jnp.max(start) + window
  first = 0 if reach is None else jnp.maximum(jnp.min(start) - reach + 1, 0) // BLOCK
  _, total, mixed = jax.lax.fori_loop(first, -(-used // BLOCK), block, carry)
  return (mixed / total).reshape(queries.shape).astype(queries.dtype)


def capped(x: Array, cap: float | None) -> Array:
  """Soft-capping, arXiv 2408.00118: cap * tanh(x / cap); None: x."""
  return x if cap is None else cap * jnp.tanh(x / cap)


def _visible(slots: Array, start: Array, window: int, ancestors: Array | None) -> Array:
  """bool[B, T, BLOCK]. Window of 3 from slot 5, a chain: rows see < 6, < 7, < 8."""
  offset = slots[None, :] - start[:, None]  # int32[B, BLOCK], 0 = first of the window
  if ancestors is None:
    return offset[:, None, :] <= jnp.arange(window)[:, None]
  inside = (offset >= 0) & (offset < window)
  index = jnp.broadcast_to(
    jnp.clip(offset, 0, window - 1)[:, None, :], (*ancestors.shape[:2], slots.size)
  )
  kin = jnp.take_along_axis(ancestors, index, axis=2)
  return (offset < 0)[:, None, :] | (inside[:, None, :] & kin)


def _within(
  slots: Array, start: Array, positions: Array, ancestors: Array | None, reach: int
) -> Array:
  """bool[B, T, BLOCK]. Reach 3: the row at position 7 sees positions 5, 6, 7.

  A tree's nodes stand at start + depth, not at their slots.
  """
  held = jnp.broadcast_to(slots, (len(start), slots.size))
  if ancestors is not None:
    offset = slots[None, :] - start[:, None]
    own = jnp.clip(offset, 0, positions.shape[1] - 1)
    held = jnp.where(offset < 0, held, jnp.take_along_axis(positions, own, axis=1))
  return held[:, None, :] > positions[:, :, None] - reach
