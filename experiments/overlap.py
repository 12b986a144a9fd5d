"""alpha: how much target and draft laws have in common (arXiv 2211.17192, Cor. 3.6).

sum_x min(p, q) at a drafted node is the chance that rejection accepts it, whatever rule
the run itself has; p(x) where candidates are deterministic. Its mean over the positions
that drafts get to has far less noise than counts of accepted tokens; it depends on K,
since a round's bonus position is in no draft. Chains above temperature 0 only: in a
greedy row it is what the counts say.
"""

import functools

import jax
import jax.numpy as jnp

from experiments.methods import Method
from specjax import decoding, sampling
from specjax.types import Array, Draft, Params
from specjax.verifiers import residual, walk
from specjax.verifiers.rejection import Rejection


def applies(method: Method) -> bool:
  """Does the method draw chains?"""
  chain = 0 < method.drafter.num_draft == method.drafter.num_nodes
  return method.temperature > 0 and chain


@functools.partial(jax.jit, static_argnums=(0, 1))
def of_round(target, drafter, params: Params, state) -> tuple[Array, Array]:
  """Overlaps of the next draft's nodes, and how much each counts, float32[B, K] both.

  A node counts with the chance that all nodes before it are accepted, since only then
  its position is one of the text's.
  """
  keys = decoding.round_keys(target, Rejection(), state)
  draft, state = decoding.propose(drafter, params, keys, state)
  out = decoding.score(target, drafter, params, draft, state)
  overlap, accepted = of_nodes(draft, sampling.warp(out.logits, state.sampling))
  valid = walk.is_valid(draft)
  overlap, accepted = (jnp.where(valid, x, 0.0) for x in (overlap, accepted))
  before = jnp.pad(accepted[:, :-1], ((0, 0), (1, 0)), constant_values=1.0)
  return overlap, jnp.cumprod(before, axis=1) * valid


def of_nodes(draft: Draft, log_p: Array) -> tuple[Array, Array]:
  """sum_x min(p, q) at each node of a chain, and min(1, p / q) of its token."""
  accepted = jnp.minimum(jnp.exp(residual.log_ratio(log_p, draft)), 1.0)
  if draft.log_q is None:
    return accepted, accepted
  p = jnp.exp(log_p[:, :-1])
  p = p if draft.vocab is None else p[..., draft.vocab]
  return jnp.sum(jnp.minimum(p, jnp.exp(draft.log_q)), axis=-1), accepted
