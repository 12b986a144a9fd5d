"""Accept a node while it is the target's own Gumbel-max sample.

Source: arXiv 2408.07978 (Gumbel coupling). The target's token at a position is
argmax(log p + g) with g fixed by (seed, position): the same token that plain sampling
with this seed emits, whatever was drafted. So every drafter yields the same text, and
drafters can be compared by acceptance alone.

A drafter that draws argmax(log q + g) with the same g is accepted with probability
sum_x 1 / sum_y max(p_y / p_x, q_y / q_x); a deterministic candidate x with p(x).
Chains and trees.
"""

import dataclasses

import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax import sampling, trees
from specjax.types import Array, Draft, Verdict
from specjax.verifiers import walk


@dataclasses.dataclass(frozen=True)
class Gumbel:
  """Exact coupling of target and draft through shared noise."""

  lossless = True
  shared_noise = True
  greedy_only = False

  def __call__(self, keys, draft: Draft, log_p: Array) -> Verdict:
    """See `specjax.types.Verifier`."""
    sample = sampling.first_largest(log_p + _noise(keys, draft))
    return walk.follow(draft, sample)


def _noise(keys, draft: Draft) -> Array:
  """float32[B, T, V]: rows at one depth stand at one position and share its noise."""
  depths = jnp.arange(trees.max_depth(draft.tree) + 1)
  noise = keys_lib.gumbel(keys, keys.length[:, None] + depths)
  if trees.is_chain(draft.tree):
    return noise
  parents = trees.parents(draft.tree, draft.tokens.shape[0])
  depth = trees.depths(trees.ancestors(parents))
  return jnp.take_along_axis(noise, depth[..., None], axis=1)


Verifier = Gumbel
