"""What the rules share: from target choices, or nodes that pass, to a Verdict."""

import jax.numpy as jnp

from specjax import trees
from specjax.types import Array, Draft, Verdict


def follow(draft: Draft, choice: Array) -> Verdict:
  """Walks the draft along the target's own choice int32[B, T] at each row.

  draft 4 4 8, choice 4 4 5 1 -> num_accepted 2, next_token 5. In a tree the deepest
  node wins whose every token was the choice behind its parent.
  """
  if trees.is_chain(draft.tree):
    num_accepted = count_accepted(draft, draft.tokens == choice[:, :-1])
    return Verdict(chain_path(draft), num_accepted, at_row(choice, num_accepted))
  parents = trees.parents(draft.tree, len(draft.tokens))
  chosen = draft.tokens == jnp.take_along_axis(choice, parents + 1, axis=1)
  row, num_accepted, path = deepest(draft, chosen)
  return Verdict(path, num_accepted, at_row(choice, row))


def deepest(draft: Draft, chosen: Array) -> tuple[Array, Array, Array]:
  """The deepest valid node that was chosen together with all its ancestors.

  Args:
    chosen: bool[B, N].

  Returns:
    Its row int32[B] (0, the root, where there is none), its depth int32[B], and the
    path to it int32[B, K].
  """
  ancestors = trees.ancestors(trees.parents(draft.tree, len(draft.tokens)))
  chosen &= is_valid(draft)
  chosen = jnp.pad(chosen, ((0, 0), (1, 0)), constant_values=True)
  reached = jnp.all(~ancestors | chosen[:, None, :], axis=-1)
  depth = jnp.where(reached, trees.depths(ancestors), 0)
  row = jnp.argmax(depth, axis=1)
  path = trees.path_to(ancestors, row, trees.max_depth(draft.tree))
  return row, jnp.max(depth, axis=1), path


def is_valid(draft: Draft) -> Array:
  """Which nodes count, bool[B, N]."""
  return jnp.arange(draft.tokens.shape[1]) < draft.num_valid[:, None]


def count_accepted(draft: Draft, passes: Array) -> Array:
  """Leading valid nodes of a chain that pass, int32[B], from bool[B, N].

  passes 1 1 0 1, num_valid 4 -> 2;  passes 1 1 1 1, num_valid 3 -> 3
  """
  passes = jnp.cumprod(passes & is_valid(draft), axis=1)
  return jnp.sum(passes, axis=1, dtype=jnp.int32)


def chain_path(draft: Draft) -> Array:
  """Node d stands at depth d, int32[B, N]."""
  return jnp.broadcast_to(jnp.arange(draft.tokens.shape[1]), draft.tokens.shape)


def at_row(rows: Array, row: Array) -> Array:
  """rows[b, row[b]] of [B, T, ...], [B, ...]."""
  index = row.reshape((-1,) + (1,) * (rows.ndim - 1))
  return jnp.take_along_axis(rows, index, axis=1)[:, 0]
