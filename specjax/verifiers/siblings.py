"""Candidates tried one after another: how likely each is kept, and what p has left.

p stands behind a node, and its children x_1, x_2, ... were drawn from q_1, q_2, ...,
each given its elders: with replacement all q are one law, without it q_2 has no x_1 any
more. Deterministic children have one-hot q. The node itself holds with a weight w: 1
where it was accepted for good (recursive rejection: SpecInfer, arXiv 2305.09781,
Sequoia, 2402.12374), less where that is still to be decided (traversal, 2505.12398).
The mass m = w p, of a whole t = 1, is what the children may take:

  child j is kept with  min(1, m(x_j) / (t q_j(x_j)));  if it is not,
  m <- max(0, m - t q_j),  t <- sum(m) + 1 - w

and behind the last child the node keeps the weight sum(m) / t and the law m / sum(m).

p = (.5, .3, .2), q = (.2, .3, .5), w = 1. x_1 = 2 is kept with .2 / .5. If not, m is
(.3, 0, 0) and t = .3. Without replacement q_2 = (.4, .6, 0): x_2 = 0 is kept with
min(1, .3 / .12), x_2 = 1 with 0. So one of two children is kept with 41/50 in all.
"""

import jax
import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax import sampling, trees
from specjax.types import Array, Draft, Verdict
from specjax.verifiers import walk


def weigh(draft: Draft, log_p: Array, joint: bool) -> tuple[Array, Array]:
  """How likely each child is kept, and each node's weight behind its children.

  Args:
    log_p: float32[B, N + 1, V].
    joint: w of a node is the chance with which it was kept as a child; else 1.

  Returns:
    float32[B, N] and float32[B, N + 1]; a node without children has its own w behind
    them.
  """
  return (_certain if draft.log_q is None else _drawn)(draft, log_p, joint)


def _certain(draft: Draft, log_p: Array, joint: bool) -> tuple[Array, Array]:
  """Deterministic children: elders of mass M leave p(x) w / (1 - w M)."""
  parents, elder = _families(draft)
  rows = jnp.arange(len(parents))[:, None]
  p = jnp.exp(log_p[rows, parents + 1, draft.tokens])
  again = elder & (draft.tokens[:, :, None] == draft.tokens[:, None])
  p = jnp.where(walk.is_valid(draft) & ~jnp.any(again, axis=2), p, 0.0)
  taken = jnp.sum(elder * p[:, None], axis=2)
  holds = jnp.ones(log_p.shape[:2])
  for _ in range(trees.max_depth(draft.tree) if joint else 1):  # a generation a turn
    weight = jnp.take_along_axis(holds, parents + 1, axis=1)
    kept = _ratio(weight * p, 1 - weight * taken)
    holds = holds.at[:, 1:].set(kept) if joint else holds
  is_child = parents[:, None] + 1 == jnp.arange(holds.shape[1])[:, None]
  taken = jnp.sum(is_child * p[:, None], axis=2)
  return kept, 1 - _ratio(1 - holds, 1 - holds * taken)


def _drawn(draft: Draft, log_p: Array, joint: bool) -> tuple[Array, Array]:
  """One pass over V a node, family by family."""
  batch, num_nodes = draft.tokens.shape
  parents, valid = trees.parents(draft.tree, batch), walk.is_valid(draft)
  order, rows = jnp.argsort(parents, axis=1, stable=True), jnp.arange(batch)

  def one(i, carry):
    family, mass, whole, kept, rest = carry
    node = order[:, i]
    row, counts = parents[rows, node] + 1, valid[rows, node]
    weight = kept[rows, row] if joint else jnp.ones(batch)
    fresh = row != family
    mass = jnp.where(fresh[:, None], _mass(log_p, row, weight), mass)
    whole = jnp.where(fresh, 1.0, whole)
    q, own_q = _law(draft, node, mass.shape[1])
    own = mass[rows, draft.tokens[rows, node]]
    chance = jnp.where(counts, _ratio(own, whole * own_q), 0.0)
    mass, whole = _give_up(mass, whole, weight, q, counts)
    kept = kept.at[rows, node + 1].set(chance)
    if joint:
      rest = rest.at[rows, node + 1].set(chance)
      rest = rest.at[rows, row].set(1 - _ratio(1 - weight, whole))
    return row, mass, whole, kept, rest

  ones = jnp.ones((batch, num_nodes + 1))
  nobody, nothing = jnp.full(batch, -1), jnp.zeros((batch, log_p.shape[2]))
  start = nobody, nothing, ones[:, 0], ones, ones
  *_, kept, rest = jax.lax.fori_loop(0, num_nodes, one, start)
  return kept[:, 1:], rest


def no_elder(draft: Draft, passes: Array) -> Array:
  """Nodes of bool[B, N] that pass while no elder sibling does."""
  _, elder = _families(draft)
  return passes & ~jnp.any(elder & passes[:, None, :], axis=2)


def stop_at(keys, draft: Draft, log_p: Array, chosen: Array, holds: Array) -> Verdict:
  """Ends at the deepest chosen node, with a draw from what its children left of p.

  Args:
    chosen: bool[B, N].
    holds: float32[B, N + 1], the weight with which each node holds.
  """
  row, num_accepted, path = walk.deepest(draft, chosen)
  mass = _left(draft, log_p, row, walk.at_row(holds, row))
  nothing = jnp.sum(mass, axis=1, keepdims=True) == 0  # p = q up to rounding
  log_law = jnp.where(nothing, walk.at_row(log_p, row), jnp.log(mass))
  noise = keys_lib.noise(keys_lib.row_key(keys, keys_lib.RESIDUAL), mass.shape[1])
  next_token = sampling.first_largest(log_law + noise)
  return Verdict(path, num_accepted.astype(jnp.int32), next_token)


def _left(draft: Draft, log_p: Array, row: Array, weight: Array) -> Array:
  """m behind all valid children of a row, float32[B, V]."""
  parents = trees.parents(draft.tree, len(row))
  is_child = (parents + 1 == row[:, None]) & walk.is_valid(draft)
  mass, rows = _mass(log_p, row, weight), jnp.arange(len(row))
  if draft.log_q is None:
    gone = jnp.where(is_child, draft.tokens, mass.shape[1])
    return mass.at[rows[:, None], gone].set(0.0, mode='drop')
  first = jnp.argsort(~is_child, axis=1, stable=True)  # its children, in order

  def one(j, carry):
    node = first[:, j]
    left, whole = carry
    q, _ = _law(draft, node, left.shape[1])
    return _give_up(left, whole, weight, q, is_child[rows, node])

  most = jnp.max(jnp.sum(is_child, axis=1))
  return jax.lax.fori_loop(0, most, one, (mass, jnp.ones(len(row))))[0]


def _give_up(mass: Array, whole: Array, weight, q: Array, counts: Array):
  """m and t behind a child of law q that was not kept."""
  left = jnp.maximum(mass - whole[:, None] * q, 0.0)
  rest = jnp.sum(left, axis=1) + 1 - weight
  return jnp.where(counts[:, None], left, mass), jnp.where(counts, rest, whole)


def _mass(log_p: Array, row: Array, weight: Array) -> Array:
  return weight[:, None] * jnp.exp(walk.at_row(log_p, row))


def _law(draft: Draft, node: Array, vocab_size: int) -> tuple[Array, Array]:
  """q float32[B, V] of a node int32[B], and q of the node's own token, float32[B]."""
  assert draft.log_q is not None
  q, token = jnp.exp(walk.at_row(draft.log_q, node)), walk.at_row(draft.tokens, node)
  if draft.vocab is not None:
    q = jnp.zeros((len(node), vocab_size)).at[:, draft.vocab].set(q)
  return q, q[jnp.arange(len(node)), token]


def _families(draft: Draft) -> tuple[Array, Array]:
  """Parents int32[B, N], and elder[b, n, m]: m is an elder sibling of n."""
  parents = trees.parents(draft.tree, len(draft.tokens))
  nodes = jnp.arange(parents.shape[1])
  siblings = parents[:, :, None] == parents[:, None]
  return parents, siblings & (nodes < nodes[:, None])


def _ratio(part: Array, whole: Array) -> Array:
  """part / whole within [0, 1], and 0 of nothing."""
  return jnp.where(whole > 0, jnp.minimum(part / jnp.where(whole > 0, whole, 1), 1), 0)
