"""Trees grown at run time from the drafter's own probabilities, in static shapes.

Nodes are chosen by their score, which depends on the tokens they hold. So the tokens
must be deterministic candidates, the drafter's likeliest (`Draft.log_q` = None): to
choose among sampled ones bends the output's law, (.5, .3, .2) becomes (.49, .21, .30).
"""

import jax
import jax.numpy as jnp

from specjax.types import Array


def rerank(scores: Array, parents: Array, num_nodes: int) -> tuple[Array, Array]:
  """The best nodes of a pool, as a tree (EAGLE-2, arXiv 2406.16858, section 4.2).

  A node's score must not exceed its parent's, which stands before it: then the best
  nodes hold their ancestors. Ties go to the lower index. The nodes keep their order.

  scores -.1 -2 -.3 -.2, parents -1 -1 0 0, best 3 -> nodes 0 2 3, parents -1 0 0

  Args:
    scores: float32[B, M], log-probabilities of whole paths. Of deterministic
      candidates only: see the module.
    parents: int32[B, M]; -1 is the root.
    num_nodes: N, how many are kept.

  Returns:
    Their indices in the pool, ascending, and their parents among the N; int32[B, N].
  """
  _check_enough(scores.shape[1], num_nodes)
  nodes = jnp.sort(jax.lax.top_k(scores, num_nodes)[1], axis=1).astype(jnp.int32)
  above = jnp.take_along_axis(parents, nodes, axis=1)
  place = jnp.argmax(above[:, :, None] == nodes[:, None, :], axis=2)
  return nodes, jnp.where(above < 0, -1, place).astype(jnp.int32)


def best_first(log_probs: Array, num_nodes: int) -> tuple[Array, Array, Array]:
  """The most probable paths over a parallel drafter's candidates (arXiv 2604.12989).

  A drafter that gives every depth one law, whatever was drafted before, makes a path
  as probable as the product of its ranks' probabilities. A path among the N best has
  its prefixes among them, so the N best of each depth, extended, hold them all: what
  a search that opens the best node first would find, without its N steps.

  .6 .3 at depth 1, .7 .2 at depth 2, N = 3 -> (0,) .6, (1,) .3, (0, 0) .42

  Args:
    log_probs: float32[B, K, R], of the R likeliest tokens at each depth, likeliest
      first. They are deterministic candidates: see the module.
    num_nodes: N.

  Returns:
    parents, depth (from 1) and rank of each node, int32[B, N], by depth and then by
    path: node n holds the candidate [b, depth - 1, rank]. Ties go to the node that
    stands first.
  """
  pool = _pool(log_probs, num_nodes)
  scores, parents, depth, rank = (jnp.concatenate(x, axis=1) for x in zip(*pool))
  nodes, parents = rerank(scores, parents, num_nodes)
  of_nodes = lambda x: jnp.take_along_axis(x, nodes, axis=1)
  return parents, of_nodes(depth), of_nodes(rank)


def _pool(log_probs: Array, num_nodes: int) -> list[tuple[Array, ...]]:
  """The N best paths of each depth: (scores, parents in the pool, depth, rank)."""
  batch, max_depth, ranks = log_probs.shape
  pool: list[tuple[Array, ...]] = []
  scores, first = jnp.zeros_like(log_probs[:, 0, :1]), -1
  for depth in range(max_depth):
    width = scores.shape[1]
    extended = scores[:, :, None] + log_probs[:, depth, None]
    flat = extended.reshape(batch, width * ranks)
    best = jax.lax.top_k(flat, min(num_nodes, width * ranks))[1]
    best = jnp.sort(best, axis=1).astype(jnp.int32)
    scores = jnp.take_along_axis(flat, best, axis=1)
    pool.append(
      (scores, first + best // ranks, jnp.full_like(best, depth + 1), best % ranks)
    )
    first += width
  return pool


def _check_enough(there: int, wanted: int) -> None:
  if there < wanted:
    raise ValueError(f'{wanted} nodes are wanted of only {there} candidates')
