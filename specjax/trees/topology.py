"""Who follows whom among drafted nodes: depths, ancestors, paths.

Row 0 of a scored window is the last committed token, the root; node n is row n + 1. The
tree with parents (-1, -1, 0, 2), nodes a b c d:

  root - a - c - d        depths of the rows   0 1 1 2 3
       - b                path to d (node 3)   0 2 3: its node at depths 1, 2, 3
"""

import jax.numpy as jnp

from specjax.types import Array, Tree


def chain(num_nodes: int) -> Tree:
  """Each node follows the one before it: parents -1, 0, 1, ..."""
  return Tree(static=tuple(range(-1, num_nodes - 1)))


def is_chain(tree: Tree) -> bool:
  """Known at trace time; a chain needs no ancestor mask and no cache clean-up."""
  return tree.static is not None and tree == chain(len(tree.static))


def max_depth(tree: Tree) -> int:
  """Generations at most: a grown tree that does not say may be a chain."""
  if tree.grown is not None:
    return tree.grown.shape[1] if tree.depth is None else tree.depth
  assert tree.static is not None
  generation = [0]
  for parent in tree.static:
    generation.append(generation[parent + 1] + 1)
  return max(generation)


def parents(tree: Tree, batch: int) -> Array:
  """int32[B, N], -1 for children of the root."""
  if tree.grown is not None:
    return tree.grown
  assert tree.static is not None
  return jnp.broadcast_to(jnp.array(tree.static, jnp.int32), (batch, len(tree.static)))


def ancestors(parents: Array) -> Array:
  """Which rows stand on the way from the root to each row, itself included.

  bool[B, T, T] from parents int32[B, N], T = N + 1: [b, r, s] says that r sees s.
  """
  rows = parents.shape[1] + 1
  above = jnp.pad(parents + 1, ((0, 0), (1, 0)))  # the root is its own parent
  seen = jnp.eye(rows, dtype=bool) | (above[..., None] == jnp.arange(rows))
  for _ in range(rows.bit_length()):  # each squaring doubles the generations covered
    seen = jnp.any(seen[:, :, :, None] & seen[:, None, :, :], axis=2)
  return seen


def depths(ancestors: Array) -> Array:
  """Generations below the root of each row, int32[B, T]."""
  return jnp.sum(ancestors, axis=-1, dtype=jnp.int32) - 1


def path_to(ancestors: Array, row: Array, max_depth: int) -> Array:
  """The nodes on the way to row int32[B], int32[B, K]; past its depth: 0."""
  kin = jnp.take_along_axis(ancestors, row[:, None, None], axis=1)  # bool[B, 1, T]
  at = depths(ancestors)[:, None, :] == jnp.arange(1, max_depth + 1)[:, None]
  return jnp.maximum(jnp.argmax(kin & at, axis=-1) - 1, 0).astype(jnp.int32)
