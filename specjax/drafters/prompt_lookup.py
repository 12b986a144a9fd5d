"""Prompt lookup: what followed the last n tokens the last time they occurred.

Source: Saxena 2023, "Prompt Lookup Decoding"; searched here on the device, over prompt
and output. Lengths run from max_ngram down to min_ngram; the longest n-gram with an
earlier occurrence wins, and of its occurrences the most recent. A row without a match
drafts nothing, and a round in which no row matches costs a one-token target call.

  tokens 5 6 7 8 5 6   n = 2: (5 6) stood at 0, so the draft is 7 8 5 6, at most K of it
"""

import dataclasses

import jax.numpy as jnp

from specjax import checks, trees
from specjax.types import Array, Context, Draft, Window


@dataclasses.dataclass(frozen=True)
class PromptLookup:
  """Training-free copying.

  Raises:
    ValueError: num_draft < 1, or not 1 <= min_ngram <= max_ngram.
  """

  num_draft: int = 5
  max_ngram: int = 3
  min_ngram: int = 2
  feature_layers = ()

  def __post_init__(self):
    checks.whole('num_draft', self.num_draft, 1)
    check_ngrams(self.min_ngram, self.max_ngram)

  @property
  def num_nodes(self) -> int:
    """A chain."""
    return self.num_draft

  def init(self, params, batch: int, max_len: int) -> None:
    """No state: the text itself is all there is to look at."""

  def update(self, params, state: None, window: Window) -> None:
    """Nothing to learn."""

  def propose(self, params, state: None, context: Context, keys):
    """Copies up to num_draft tokens behind the best match."""
    tokens, length = context.tokens, context.length
    after = self._after_best_match(tokens, length)
    index = after[:, None] + jnp.arange(self.num_draft)
    copied = jnp.take_along_axis(tokens, index, axis=1, mode='clip')
    num_valid = jnp.where(after > 0, jnp.minimum(length - after, self.num_draft), 0)
    return Draft(copied, num_valid, trees.chain(self.num_draft)), None

  def _after_best_match(self, tokens: Array, length: Array) -> Array:
    """int32[B], the position behind the best earlier match; 0 where there is none."""
    position = jnp.arange(tokens.shape[1])
    agrees = jnp.ones(tokens.shape, bool)  # the n tokens up to here equal the last n
    best = jnp.zeros(tokens.shape[0], jnp.int32)
    for n in range(1, self.max_ngram + 1):
      last = jnp.take_along_axis(tokens, length[:, None] - n, axis=1, mode='clip')
      agrees &= jnp.roll(tokens, n - 1, axis=1) == last
      earlier = (position >= n - 1) & (position < length[:, None] - 1)
      newest = jnp.max(jnp.where(agrees & earlier, position + 1, 0), axis=1)
      if n >= self.min_ngram:
        best = jnp.where(newest > 0, newest, best)
    return best


def check_ngrams(min_ngram: int, max_ngram: int) -> None:
  """Raises ValueError unless 1 <= min_ngram <= max_ngram."""
  checks.whole('min_ngram', min_ngram, 1)
  checks.whole('max_ngram', max_ngram, 1)
  if min_ngram > max_ngram:
    raise ValueError(f'need min_ngram <= max_ngram, got {min_ngram} and {max_ngram}')


Drafter = PromptLookup
