"""Speculative rejection sampling, token by token.

Source: arXiv 2211.17192, algorithm 1. In a chain node x, drawn from q, is accepted with
probability min(1, p(x) / q(x)); at the first rejection the token comes from the
residual, norm(max(0, p - q)); a row that accepts all its valid nodes draws its bonus
from p. A deterministic candidate has one-hot q: accepted with p(x), residual p without
x. Expected acceptance sum_x min(p(x), q(x)).

In a tree siblings are tried one after another, each against what its elders left of p:
with replacement (SpecInfer, 2305.09781), without (Sequoia, 2402.12374) or deterministic
(EAGLE-2's rule, 2406.16858), as log_q says. See specjax.verifiers.siblings.
"""

import dataclasses

import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax import trees
from specjax.types import Array, Draft, Verdict
from specjax.verifiers import residual, siblings, walk


@dataclasses.dataclass(frozen=True)
class Rejection:
  """Accepts with min(1, p / q), corrects from the residual. Chains and trees."""

  lossless = True
  shared_noise = False
  greedy_only = False

  def __call__(self, keys, draft: Draft, log_p: Array) -> Verdict:
    """See `specjax.types.Verifier`."""
    coins = keys_lib.uniforms(keys, keys_lib.ACCEPT, draft.tokens.shape[1])
    if not trees.is_chain(draft.tree):
      kept, holds = siblings.weigh(draft, log_p, joint=False)
      chosen = siblings.no_elder(draft, coins < kept)
      return siblings.stop_at(keys, draft, log_p, chosen, holds)
    passes = jnp.log(coins) < residual.log_ratio(log_p, draft)
    num_accepted = walk.count_accepted(draft, passes)
    return residual.corrected(keys, draft, log_p, num_accepted)


Verifier = Rejection
