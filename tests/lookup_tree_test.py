"""Prompt lookup on a tree against a plain search, on thousands of small texts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import sampling, trees
from specjax.drafters.lookup_tree import LookupTree
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.types import Context

L, ROWS = 20, 1500
PATHS = (0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (1, 0, 0)


def draft_of(drafter, texts):
  """The drafts behind texts of up to L tokens, on the host."""
  length = np.array([len(text) for text in texts])
  tokens = np.array([[*text, *[1] * (L - len(text))] for text in texts])
  context = Context(
    tokens=jnp.asarray(tokens, jnp.int32),
    length=jnp.asarray(length, jnp.int32),
    budget=jnp.full(len(texts), 9),
    sampling=sampling.make_sampling(len(texts)),
  )
  return jax.device_get(_propose(drafter, context))


@functools.partial(jax.jit, static_argnums=0)
def _propose(drafter, context):
  return drafter.propose((None, None), None, context, None)[0]


def successors(text: list[int], gram: list[int], most: int, least: int) -> list[int]:
  """What followed the n-gram in the text: longest first, then the most recent."""
  found: list[int] = []
  for n in range(min(most, len(text) - 1), least - 1, -1):
    for start in range(len(text) - n - 1, -1, -1):
      token = text[start + n]
      if text[start : start + n] == gram[-n:] and token not in found:
        found.append(token)
  return found


def searched(text: list[int], most: int, least: int) -> list[int | None]:
  """The tokens of PATHS, None where nothing is found, up to the last one found."""
  known: dict[tuple, list[int] | None] = {(): []}
  for path in PATHS:
    above = known[path[:-1]]
    found = [] if above is None else successors(text, text + above, most, least)
    known[path] = [*above, found[path[-1]]] if path[-1] < len(found) else None
  tokens = [None if known[path] is None else known[path][-1] for path in PATHS]
  while tokens and tokens[-1] is None:
    tokens.pop()
  return tokens


@pytest.mark.parametrize('max_ngram, min_ngram', [(1, 1), (3, 1), (3, 2)])
def test_equals_a_plain_search(max_ngram, min_ngram):
  rng = np.random.default_rng(0)
  alphabets, lengths = rng.integers(1, 6, ROWS), rng.integers(1, L + 1, ROWS)
  texts = [rng.integers(0, a, n).tolist() for a, n in zip(alphabets, lengths)]
  draft = draft_of(LookupTree(3, PATHS, max_ngram, min_ngram), texts)
  assert draft.log_q is None and trees.paths(draft.tree) == PATHS
  sizes, gaps = set(), 0
  for text, tokens, num_valid in zip(texts, draft.tokens, draft.num_valid):
    want = searched(text, max_ngram, min_ngram)
    assert num_valid == len(want), text
    assert all(w is None or w == t for w, t in zip(want, tokens)), (text, want, tokens)
    sizes.add(len(want))
    gaps += None in want
  assert {0, 7, 8} <= sizes and gaps > 50


def test_the_example_of_the_docstring():
  text = [5, 6, 7, 5, 6, 8, 6, 9, 5, 6]
  draft = draft_of(LookupTree(2, ((0,), (1,), (0, 0)), 2, 1), [text])
  assert draft.tokens.tolist() == [[8, 7, 6]] and draft.num_valid.tolist() == [3]


def test_one_branch_copies_a_text_that_repeats_itself_as_prompt_lookup_does():
  texts = [[5, 6, 7, 8, 9][i:] + [5, 6, 7, 8, 9] * 2 + [5, 6, 7][:i] for i in range(4)]
  one, other = (
    draft_of(drafter, texts) for drafter in (LookupTree(5), PromptLookup(5))
  )
  assert one.tree == other.tree == trees.chain(5)
  assert np.array_equal(one.tokens, other.tokens)
  assert np.array_equal(one.num_valid, other.num_valid)
  assert one.num_valid.tolist() == [5] * 4


@pytest.mark.parametrize(
  'setting, message',
  [
    (dict(num_draft=0), 'num_draft'),
    (dict(max_ngram=2, min_ngram=3), '3 and 2'),
    (dict(num_draft=2, tree=((0,), (1,))), 'num_draft is 2 and the tree is 1 deep'),
    (dict(num_draft=2, tree=((0,), (0, 1))), r'needs \(0, 0\)'),
  ],
)
def test_bad_settings_are_refused(setting, message):
  with pytest.raises(ValueError, match=message):
    LookupTree(**setting)
