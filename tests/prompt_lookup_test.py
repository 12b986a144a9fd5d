"""Prompt lookup on the device against a plain search, on thousands of small texts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import sampling
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.types import Context

L, K, ROWS = 24, 4, 3000


def searched(text: list[int], max_ngram: int, min_ngram: int) -> list[int]:
  """The draft: longest n-gram first, of its earlier occurrences the last one."""
  for n in range(min(max_ngram, len(text) - 1), min_ngram - 1, -1):
    for start in range(len(text) - n - 1, -1, -1):
      if text[start : start + n] == text[-n:]:
        return text[start + n : start + n + K]
  return []


@pytest.mark.parametrize('max_ngram, min_ngram', [(1, 1), (3, 1), (3, 2), (4, 4)])
def test_equals_a_plain_search(max_ngram, min_ngram):
  rng = np.random.default_rng(0)
  alphabet = rng.integers(1, 6, (ROWS, 1))
  tokens = rng.integers(0, alphabet, (ROWS, L))  # also behind the text: must not count
  length = rng.integers(1, L + 1, ROWS)
  context = Context(
    tokens=jnp.asarray(tokens, jnp.int32),
    length=jnp.asarray(length, jnp.int32),
    budget=jnp.full(ROWS, 9),
    sampling=sampling.make_sampling(ROWS),
  )
  drafter = PromptLookup(K, max_ngram, min_ngram)
  propose = jax.jit(
    lambda context: drafter.propose((None, None), None, context, None)[0]
  )
  draft = jax.device_get(propose(context))
  assert draft.log_q is None and draft.vocab is None
  want = [
    searched(row[:n].tolist(), max_ngram, min_ngram) for row, n in zip(tokens, length)
  ]
  got = [row[:n].tolist() for row, n in zip(draft.tokens, draft.num_valid)]
  assert got == want
  assert {len(row) for row in want} == set(range(K + 1))


@pytest.mark.parametrize(
  'setting, message',
  [
    (dict(num_draft=0), 'num_draft'),
    (dict(min_ngram=0), 'min_ngram must be a whole number of at least 1, got 0'),
    (dict(max_ngram=2, min_ngram=3), '3 and 2'),
  ],
)
def test_bad_settings_are_refused(setting, message):
  with pytest.raises(ValueError, match=message):
    PromptLookup(**setting)
