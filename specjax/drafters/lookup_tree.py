"""Prompt lookup on a tree: several continuations of the text, each found in it.

Source: Saxena 2023, "Prompt Lookup Decoding"; here a node's children are what followed,
somewhere in the text, the n-gram that ends at the node. Behind longer n-grams come
better ones, from max_ngram down to min_ngram, and behind equally long ones the more
recent; a token found twice counts once. Tree (0,) (1,) (0, 0), n from 2 to 1:

  text       5 6 7 5 6 8 6 9 5 6    behind 5 6 stood 8 and 7, behind 6 also 9
  children   8, 7                   the longer n-gram's first, the recent one first
  of the 8   6                      behind 6 8

A node without a successor holds rubbish, and so do those behind it. They count as
drafted where something was found for a later node; the draft ends with the last node
that was, and a row in which the text's own end has no match drafts nothing.
"""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np

from specjax.drafters import growing, prompt_lookup
from specjax.types import Array, Context, Draft, Tree, Window


@dataclasses.dataclass(frozen=True)
class LookupTree:
  """Training-free copying of several continuations.

  `tree` is a path list (none: a chain), num_draft deep.

  Raises:
    ValueError: not 1 <= min_ngram <= max_ngram; see `growing.static_tree`.
  """

  num_draft: int = 5
  tree: tuple[tuple[int, ...], ...] = ()
  max_ngram: int = 3
  min_ngram: int = 2
  feature_layers = ()

  def __post_init__(self):
    prompt_lookup.check_ngrams(self.min_ngram, self.max_ngram)
    _ = self._tree  # refuses wrong paths

  @property
  def num_nodes(self) -> int:
    """N."""
    assert self._tree.static is not None
    return len(self._tree.static)

  @functools.cached_property
  def _tree(self) -> Tree:
    return growing.static_tree(self.num_draft, self.tree)

  def init(self, params, batch: int, max_len: int) -> None:
    """No state: the text itself is all there is to look at."""

  def update(self, params, state: None, window: Window) -> None:
    """Nothing to learn."""

  def propose(self, params, state: None, context: Context, keys):
    """Looks up one depth of the tree after another."""
    end = context.length[:, None] - np.arange(self.max_ngram)[::-1]
    last = jnp.take_along_axis(context.tokens, end - 1, axis=1, mode='clip')
    grams = last[:, None]  # int32[B, T, max_ngram], which end in each row of the tree
    found = jnp.ones(grams.shape[:2], bool)  # with all its ancestors
    for rows, counts in growing.levels(self._tree):
      above = np.repeat(rows, counts)
      tokens, matched = self._successors(context, grams[:, np.array(rows)], counts)
      new = jnp.concatenate([grams[:, above, 1:], tokens[..., None]], axis=-1)
      grams = jnp.concatenate([grams, new], axis=1)
      found = jnp.concatenate([found, found[:, above] & matched], axis=1)
    last_found = jnp.max(jnp.where(found, jnp.arange(found.shape[1]), 0), axis=1)
    draft = Draft(grams[:, 1:, -1], last_found.astype(jnp.int32), self._tree)
    return draft, None

  def _successors(
    self, context: Context, grams: Array, counts: tuple[int, ...]
  ) -> tuple[Array, Array]:
    """The best counts[m] tokens behind n-gram m of int32[B, M, max_ngram], in a row.

    Returns:
      int32[B, sum(counts)] and which of them there are, bool[B, sum(counts)].
    """
    after = jnp.roll(context.tokens, -1, axis=1)[:, None]
    places, best = self._matches(context, grams), []
    for _ in range(max(counts)):
      top = jnp.max(places, axis=2, keepdims=True)
      place = top % context.tokens.shape[1]
      token = jnp.take_along_axis(after, place, axis=2)
      best.append((token[..., 0], top[..., 0] > 0))
      places = jnp.where(after == token, 0, places)
    node = np.repeat(np.arange(len(counts)), counts)
    rank = np.concatenate([np.arange(count) for count in counts])
    tokens, matched = (jnp.stack(x, axis=2)[:, node, rank] for x in zip(*best))
    return tokens, matched

  def _matches(self, context: Context, grams: Array) -> Array:
    """How good it is to copy from behind each position, int32[B, M, L]; 0: no match.

    n L + j where the last n tokens up to position j are the n-gram's, for the largest
    such n: L = 10, n = 2 at position 4 -> 24, better than n = 1 at position 6, 16.
    """
    tokens, position = context.tokens[:, None], jnp.arange(context.tokens.shape[1])
    followed = position < context.length[:, None, None] - 1
    agrees = jnp.ones(followed.shape, bool)
    worth = jnp.zeros((*grams.shape[:2], len(position)), jnp.int32)
    for n in range(1, self.max_ngram + 1):
      agrees &= jnp.roll(tokens, n - 1, axis=2) == grams[..., -n, None]
      match = agrees & followed & (position >= n - 1)
      if n >= self.min_ngram:
        worth = jnp.where(match, n * len(position) + position, worth)
    return worth.astype(jnp.int32)


Drafter = LookupTree
