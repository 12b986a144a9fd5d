"""Typical acceptance. LOSSY: the output does not have the target's law.

Source: Medusa, arXiv 2401.10774, section 2.3.1. A candidate x is accepted where

  p(x) > min(epsilon, delta * exp(-H(p)))

so where the target is unsure, an unlikely token will do. Of the accepted paths the
longest wins, and the next token is drawn from p behind it. At temperature 0 this is the
greedy rule. The defaults are those that Medusa's generation passes.
"""

import dataclasses

import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax import sampling, trees
from specjax.types import Array, Draft, Verdict
from specjax.verifiers import walk


@dataclasses.dataclass(frozen=True)
class Typical:
  """Accepts what is likely enough. Chains and trees.

  Raises:
    ValueError: epsilon or delta outside (0, 1].
  """

  epsilon: float = 0.09
  delta: float = 0.3
  lossless = False
  shared_noise = False
  greedy_only = False

  def __post_init__(self):
    for name in ('epsilon', 'delta'):
      value = getattr(self, name)
      if not 0 < value <= 1:
        raise ValueError(f'{name} must be in (0, 1], got {value}')

  def __call__(self, keys, draft: Draft, log_p: Array) -> Verdict:
    """See `specjax.types.Verifier`."""
    behind = trees.parents(draft.tree, len(draft.tokens)) + 1
    p = jnp.exp(log_p)
    entropy = -jnp.sum(jnp.where(p > 0, p * log_p, 0.0), axis=-1)
    least = jnp.minimum(self.epsilon, self.delta * jnp.exp(-entropy))
    rows = jnp.arange(len(p))[:, None]
    passes = p[rows, behind, draft.tokens] > least[rows, behind]
    row, num_accepted, path = walk.deepest(draft, passes)
    law = walk.at_row(log_p, row)
    noise = keys_lib.noise(keys_lib.row_key(keys, keys_lib.RESIDUAL), law.shape[1])
    next_token = sampling.first_largest(law + noise)
    return Verdict(path, num_accepted.astype(jnp.int32), next_token)


Verifier = Typical
