"""Reading and writing rows that have reached different lengths."""

import jax
import jax.numpy as jnp

from specjax.types import Array

CHUNK = 128  # prompt tokens scored at once


def cache_slots(max_len: int, num_nodes: int) -> int:
  """Slots that no window and no prefill chunk can overrun: writes would clamp."""
  return -(-max_len // CHUNK) * CHUNK + num_nodes + 1


def when(condition: Array, body, state):
  """body(state) if condition. A `lax.cond` that returns a cache would copy it."""
  once = lambda carry: (jnp.bool_(False), body(carry[1]))
  return jax.lax.while_loop(lambda carry: carry[0], once, (condition, state))[1]


def read(buffer: Array, start: Array, count: int) -> Array:
  """buffer[b, start[b] : start[b] + count], int32[B, count]; past the end: the last."""
  index = start[:, None] + jnp.arange(count)
  return jnp.take_along_axis(buffer, index, axis=1, mode='clip')


def append(buffer: Array, new: Array, length: Array, count: Array) -> Array:
  """Writes new[b, :count[b]] at length[b]; the rest is dropped."""
  column = jnp.arange(new.shape[1])
  index = jnp.where(column < count[:, None], length[:, None] + column, buffer.shape[1])
  rows = jnp.arange(buffer.shape[0])[:, None]
  return buffer.at[rows, index].set(new.astype(buffer.dtype), mode='drop')
