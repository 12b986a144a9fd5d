"""Accept a node while it is the target's most likely token. Temperature 0 only."""

import dataclasses

import jax.numpy as jnp

from specjax.types import Array, Draft, Verdict
from specjax.verifiers import chain


@dataclasses.dataclass(frozen=True)
class Greedy:
  """Reads argmax p only, so it is given unwarped logits; ties go to the lowest id."""

  lossless = True
  shared_noise = False
  greedy_only = True

  def __call__(self, keys, draft: Draft, log_p: Array) -> Verdict:
    """See `specjax.types.Verifier`; keys are not used."""
    best = jnp.argmax(log_p, axis=-1).astype(jnp.int32)
    num_accepted = chain.count_accepted(draft, draft.tokens == best[:, :-1])
    next_token = chain.at_stop(best, num_accepted)
    return Verdict(chain.chain_path(draft), num_accepted, next_token)


Verifier = Greedy
