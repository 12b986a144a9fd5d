"""Accept a node while it is the target's most likely token. Temperature 0 only.

Chains and trees.
"""

import dataclasses

from specjax import sampling
from specjax.types import Array, Draft, Verdict
from specjax.verifiers import walk


@dataclasses.dataclass(frozen=True)
class Greedy:
  """Reads argmax p only, so it is given unwarped logits; ties go to the lowest id."""

  lossless = True
  shared_noise = False
  greedy_only = True

  def __call__(self, keys, draft: Draft, log_p: Array) -> Verdict:
    """See `specjax.types.Verifier`; keys are not used."""
    return walk.follow(draft, sampling.first_largest(log_p))


Verifier = Greedy
