"""What the chain rules share: from 'which nodes pass' to a Verdict."""

import jax.numpy as jnp

from specjax import trees
from specjax.types import Array, Draft


def count_accepted(draft: Draft, passes: Array) -> Array:
  """Leading valid nodes that pass, int32[B], from bool[B, N].

  passes 1 1 0 1, num_valid 4 -> 2;  passes 1 1 1 1, num_valid 3 -> 3
  """
  if not trees.is_chain(draft.tree):
    raise ValueError(f'this verifier takes chains, the draft is a tree: {draft.tree}')
  valid = jnp.arange(passes.shape[1]) < draft.num_valid[:, None]
  return jnp.sum(jnp.cumprod(passes & valid, axis=1), axis=1, dtype=jnp.int32)


def chain_path(draft: Draft) -> Array:
  """Node d stands at depth d, int32[B, N]."""
  return jnp.broadcast_to(jnp.arange(draft.tokens.shape[1]), draft.tokens.shape)


def at_stop(rows: Array, num_accepted: Array) -> Array:
  """The row of [B, T, ...] where verification stopped, [B, ...]."""
  index = num_accepted.reshape((-1,) + (1,) * (rows.ndim - 1))
  return jnp.take_along_axis(rows, index, axis=1)[:, 0]
