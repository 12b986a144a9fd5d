"""No drafter: every round is one target call for one token. The baseline."""

import dataclasses

import jax.numpy as jnp

from specjax import trees
from specjax.types import Context, Draft, Window


@dataclasses.dataclass(frozen=True)
class Autoregressive:
  """Drafts nothing, so that plain decoding runs through the very same loop."""

  num_draft = 0
  num_nodes = 0
  feature_layers = ()

  def init(self, params, batch: int, max_len: int) -> None:
    """No state."""

  def update(self, params, state: None, window: Window) -> None:
    """Nothing to learn."""

  def propose(self, params, state: None, context: Context, keys):
    """An empty draft."""
    batch = context.tokens.shape[0]
    tokens = jnp.zeros((batch, 0), jnp.int32)
    return Draft(tokens, jnp.zeros(batch, jnp.int32), trees.chain(0)), None


Drafter = Autoregressive
