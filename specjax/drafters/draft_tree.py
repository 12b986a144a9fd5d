"""A smaller language model that drafts a tree.

Its shape is a path list whose nodes are the likeliest tokens, or drawn (Sequoia, arXiv
2402.12374; SpecInfer, 2305.09781), or EAGLE-2's dynamic tree (2406.16858). A depth
costs one call: the nodes with children so far are read together behind the text, the
older ones again, which reads the weights no more often than the new ones alone. Nothing
is kept of them: the next round reads the committed text over their slots, in one call.

  text 7 3 9, seen 1, K = 2       reads 7 3 9, drafts 4 and 5; reads 4 5, drafts 4 8, 6
  seen 3                          the slots of 7 3 9; behind them stand 4 5
  4 and its 8 accepted, then 2    text 7 3 9 4 8 2: reads 4 8 2
"""

import dataclasses
from typing import Any

import jax.numpy as jnp

from specjax.drafters import draft_model, growing
from specjax.drafters.dynamic_tree import DynamicTree
from specjax.drafters.growing import StaticTree
from specjax.drafters.reading import Reader, ReaderState
from specjax.model import Model
from specjax.types import Context, Window


@dataclasses.dataclass(frozen=True)
class DraftTree:
  """Drafts with `model`, as `specjax.drafters.draft_model.DraftModel`.

  Raises:
    ValueError: a node of more children than there are tokens; in `init`, a buffer
      longer than the model's context.
  """

  model: Any
  vocab_size: int
  shape: StaticTree | DynamicTree
  feature_layers = ()

  def __post_init__(self):
    if self.shape.widest > self.vocab_size:
      raise ValueError(
        f'a node has {self.shape.widest} children, and there are {self.vocab_size} '
        'tokens: take a narrower tree'
      )

  @property
  def num_draft(self) -> int:
    """The shape's."""
    return self.shape.num_draft

  @property
  def num_nodes(self) -> int:
    """The shape's."""
    return self.shape.num_nodes

  @property
  def reader(self) -> Reader:
    """The draft model."""
    return Reader(self.model, self.vocab_size)

  def init(self, params, batch: int, max_len: int) -> ReaderState:
    """An empty cache."""
    room = max(self.shape.num_read, self.num_nodes)
    return self.reader.init(params, batch, max_len, room)

  def update(self, params, state: ReaderState, window: Window) -> ReaderState:
    """See `Reader.update`."""
    return self.reader.update(params, state, window)

  def propose(self, params, state: ReaderState, context: Context, keys):
    """Grows the tree behind the text."""
    new = self.num_draft + 1  # tokens that a round can commit
    logits, cache = self.reader.catch_up(params, state, context, width=new)

    def read(cache, tokens, tree, count):
      last = jnp.arange(tokens.shape[1] - count, tokens.shape[1])
      rows = jnp.broadcast_to(last, (len(tokens), count))
      return self.reader.read(params, tokens, context.length, cache, rows, tree)

    draft, cache = self.shape.grow(logits, read, cache, keys, context.sampling)
    return draft, ReaderState(cache=cache, seen=context.length)


def pair(target: Model, draft: Model, shape) -> tuple[DraftTree, Any]:
  """The drafter for a target, and its params.

  Raises:
    ValueError: the two tokenizers differ.
  """
  draft_model.check_tokenizers(target, draft)
  return DraftTree(draft.target, target.target.vocab_size, shape), draft.params


def load(
  model: Model,
  *,
  source: str,
  num_draft: int = 4,
  tree: tuple[tuple[int, ...], ...] = (),
  siblings: str = 'likeliest',
  beam: int | None = None,
  num_nodes: int | None = None,
) -> tuple[DraftTree, Any]:
  """`pair` with the model at `source`, as `draft_model.load`.

  num_draft is the depth; see `growing.shape` for the others.
  """
  shape = growing.shape(num_draft, tree, siblings, beam, num_nodes)
  return pair(model, draft_model.loaded(source), shape)


Drafter = DraftTree
