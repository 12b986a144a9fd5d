"""Traversal verification: from the leaves to the root.

Source: arXiv 2505.12398. A node holds with the chance that the whole path to it may be
kept, not its last token alone, and it is looked at after all its descendants: the first
that passes, children before parents and elders before younger ones, ends the round. So
a good path is not lost to one early token. On a chain this is block verification. Like
it, the rule looks at later draws before it rejects them: coins are keyed by the round.
As a rule it accepts more than rejection does, but not in every tree: see docs/trees.md.

  root - a - c      looked at in the order c a b root; with a rejected, b is still to
       - b          come, and what c's and a's failures left of p is what b may take
"""

import dataclasses

import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax import trees
from specjax.types import Array, Draft, Verdict
from specjax.verifiers import siblings
from specjax.verifiers.block import Block


@dataclasses.dataclass(frozen=True)
class Traversal:
  """Accepts the first path that holds, leaves first. Chains and trees."""

  lossless = True
  shared_noise = False
  greedy_only = False

  def __call__(self, keys, draft: Draft, log_p: Array) -> Verdict:
    """See `specjax.types.Verifier`."""
    if trees.is_chain(draft.tree):
      return Block()(keys, draft, log_p)
    kept, rest = siblings.weigh(draft, log_p, joint=True)
    coins = keys_lib.uniforms(keys, keys_lib.ACCEPT, draft.tokens.shape[1])
    chosen = siblings.no_elder(draft, _any_below(draft, coins < rest[:, 1:]))
    holds = jnp.pad(kept, ((0, 0), (1, 0)), constant_values=1.0)
    return siblings.stop_at(keys, draft, log_p, chosen, holds)


def _any_below(draft: Draft, passes: Array) -> Array:
  """Nodes of bool[B, N] that pass or have a descendant that does."""
  ancestors = trees.ancestors(trees.parents(draft.tree, len(draft.tokens)))
  return jnp.any(ancestors[:, 1:, 1:] & passes[:, :, None], axis=1)


Verifier = Traversal
