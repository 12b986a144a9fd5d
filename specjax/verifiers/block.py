"""Block verification: one decision about the whole draft, never worse than rejection.

Source: arXiv 2403.10444, algorithm 2. With w_0 = 1 and
w_i = min(1, w_{i-1} p(x_i) / q(x_i)), the first i nodes are kept with

  h_i = R_i / (R_i + 1 - w_i),   R_i = sum_x max(0, w_i p(x) - q(x)),   h_K = w_K

where p and q stand behind node i; the longest prefix whose coin passes wins. The next
token comes from norm(max(0, w_i p - q)), the bonus from p. It looks at later draws
before it rejects them, so its coins are keyed by the round, never by position.
"""

import dataclasses

import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax.types import Array, Draft, Verdict
from specjax.verifiers import residual, walk


@dataclasses.dataclass(frozen=True)
class Block:
  """Accepts the longest prefix that its coin allows. Chains only."""

  lossless = True
  shared_noise = False
  greedy_only = False

  def __call__(self, keys, draft: Draft, log_p: Array) -> Verdict:
    """See `specjax.types.Verifier`."""
    residual.check_chain(draft, 'block')
    num_nodes = draft.tokens.shape[1]
    weights, keep = weigh(draft, log_p)
    coins = keys_lib.uniforms(keys, keys_lib.ACCEPT, num_nodes)
    depth = jnp.arange(1, num_nodes + 1)
    passes = (coins < keep) & (depth <= draft.num_valid[:, None])
    num_accepted = jnp.max(jnp.where(passes, depth, 0), axis=1, initial=0)
    scale = walk.at_row(weights, num_accepted)
    return residual.corrected(keys, draft, log_p, num_accepted, scale)


def weigh(draft: Draft, log_p: Array) -> tuple[Array, Array]:
  """w_0 .. w_N, float32[B, N + 1], and h_1 .. h_N, float32[B, N], of valid nodes."""
  weights = _weights(residual.log_ratio(log_p, draft))
  depth = jnp.arange(1, draft.tokens.shape[1] + 1)
  last = depth == draft.num_valid[:, None]
  return weights, jnp.where(last, weights[:, 1:], _keep(weights, log_p, draft))


def _weights(log_ratio: Array) -> Array:
  """w_0 .. w_N, float32[B, N + 1].

  ratios 1/2 3 1/2 -> weights 1 1/2 1 1/2: what is lost can be won back, up to 1.
  """
  weights = [jnp.ones(log_ratio.shape[0])]
  for ratio in jnp.exp(log_ratio).T:
    weights.append(jnp.minimum(1.0, weights[-1] * ratio))
  return jnp.stack(weights, axis=1)


def _keep(weights: Array, log_p: Array, draft: Draft) -> Array:
  """h_1 .. h_N of nodes that another valid node follows, float32[B, N]."""
  if draft.tokens.shape[1] == 0:
    return weights[:, 1:]
  scaled = weights[:, 1:-1, None] * jnp.exp(log_p[:, 1:-1])
  left = _positive_mass(scaled, draft)
  missing = 1.0 - weights[:, 1:-1]
  keep = jnp.where(left + missing > 0, left / (left + missing), 1.0)
  return jnp.pad(keep, ((0, 0), (0, 1)))


def _positive_mass(scaled: Array, draft: Draft) -> Array:
  """sum_x max(0, w p - q) behind nodes 0 .. N - 2, float32[B, N - 1]."""
  total = jnp.sum(scaled, axis=-1)
  following = draft.tokens[:, 1:, None]
  if draft.log_q is None:  # q is one at the following node's token, w p is at most one
    return total - jnp.take_along_axis(scaled, following, axis=-1)[..., 0]
  covered = scaled if draft.vocab is None else scaled[..., draft.vocab]
  return total - jnp.sum(jnp.minimum(covered, jnp.exp(draft.log_q[:, 1:])), axis=-1)


Verifier = Block
