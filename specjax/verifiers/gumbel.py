"""Accept a node while it is the target's own Gumbel-max sample.

Source: arXiv 2408.07978 (Gumbel coupling). The target's token at a position is
argmax(log p + g) with g fixed by (seed, position): the same token that plain sampling
with this seed emits, whatever was drafted. So every drafter yields the same text, and
drafters can be compared by acceptance alone.

A drafter that draws argmax(log q + g) with the same g is accepted with probability
sum_x 1 / sum_y max(p_y / p_x, q_y / q_x); a deterministic candidate x with p(x).
"""

import dataclasses

import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax.types import Array, Draft, Verdict
from specjax.verifiers import chain


@dataclasses.dataclass(frozen=True)
class Gumbel:
  """Exact coupling of target and draft through shared noise."""

  lossless = True
  shared_noise = True
  greedy_only = False

  def __call__(self, keys, draft: Draft, log_p: Array) -> Verdict:
    """See `specjax.types.Verifier`."""
    positions = keys.length[:, None] + jnp.arange(log_p.shape[1])
    noise = keys_lib.gumbel(keys, positions, log_p.shape[-1])
    sample = jnp.argmax(log_p + noise, axis=-1).astype(jnp.int32)
    num_accepted = chain.count_accepted(draft, draft.tokens == sample[:, :-1])
    next_token = chain.at_stop(sample, num_accepted)
    return Verdict(chain.chain_path(draft), num_accepted, next_token)


Verifier = Gumbel
