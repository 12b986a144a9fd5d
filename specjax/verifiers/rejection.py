"""Speculative rejection sampling, token by token.

Source: arXiv 2211.17192, algorithm 1. Node x, drawn from q, is accepted with
probability min(1, p(x) / q(x)); at the first rejection the token comes from the
residual, norm(max(0, p - q)); a row that accepts all its valid nodes draws its bonus
from p. A deterministic candidate has one-hot q: accepted with p(x), residual p without
x. Expected acceptance sum_x min(p(x), q(x)).
"""

import dataclasses

import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax.types import Array, Draft, Verdict
from specjax.verifiers import residual, walk


@dataclasses.dataclass(frozen=True)
class Rejection:
  """Accepts with min(1, p / q), corrects from the residual. Chains only."""

  lossless = True
  shared_noise = False
  greedy_only = False

  def __call__(self, keys, draft: Draft, log_p: Array) -> Verdict:
    """See `specjax.types.Verifier`."""
    residual.check_chain(draft, 'rejection')
    coins = keys_lib.uniforms(keys, keys_lib.ACCEPT, draft.tokens.shape[1])
    passes = jnp.log(coins) < residual.log_ratio(log_p, draft)
    num_accepted = walk.count_accepted(draft, passes)
    return residual.corrected(keys, draft, log_p, num_accepted)


Verifier = Rejection
