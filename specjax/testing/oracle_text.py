"""What the oracle drafter is told: prompts and the text that followed them."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from specjax.api import Completion
from specjax.types import Array


def oracle_text(
  prompts: Sequence[Sequence[int]], completions: Sequence[Completion], width: int = 256
) -> Array:
  """The oracle's own params, int32[B, width], from what the baseline wrote."""
  text = np.zeros((len(prompts), width), np.int32)
  for row, prompt, done in zip(text, prompts, completions):
    known = [*prompt, *done.tokens]
    row[: len(known)] = known
  return jnp.asarray(text)
