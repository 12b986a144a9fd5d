"""An independent smaller language model as drafter.

Sources: arXiv 2211.17192, 2302.01318. A round reads what is committed and unseen, two
tokens at a time and the last two always (see `reading`), then its own drafts:

  text 7 3 9, K = 3   reads 3 9, drafts 4; reads 4, drafts 4; reads 4, drafts 8
  seen 5              the slots of 7 3 9 4 4; the 8 was never read
  all accepted        text 7 3 9 4 4 8 6, seen 5: reads 8 6
  one accepted        text 7 3 9 4 5, seen 4 (the second 4 was wrong): reads 4 5
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from specjax import checks, trees
from specjax.drafters import drawing
from specjax.drafters.reading import Reader, ReaderState
from specjax.model import Model
from specjax.model import load as load_model
from specjax.types import Context, Draft, Window


@dataclasses.dataclass(frozen=True)
class DraftModel:
  """Drafts with `model`, a `specjax.types.Target`; its weights are the own params.

  `vocab_size` is the target's: columns of the draft model beyond it are padding and
  left out, missing ones are never drafted.

  Raises:
    ValueError: num_draft < 1; in `init`, a buffer longer than the model's context.
  """

  model: Any
  vocab_size: int
  num_draft: int = 4
  feature_layers = ()

  def __post_init__(self):
    checks.whole('num_draft', self.num_draft, 1)

  @property
  def num_nodes(self) -> int:
    """A chain."""
    return self.num_draft

  @property
  def reader(self) -> Reader:
    """The draft model."""
    return Reader(self.model, self.vocab_size)

  def init(self, params, batch: int, max_len: int) -> ReaderState:
    """An empty cache."""
    return self.reader.init(params, batch, max_len, room=self.num_draft)

  def update(self, params, state: ReaderState, window: Window) -> ReaderState:
    """See `Reader.update`."""
    return self.reader.update(params, state, window)

  def propose(self, params, state: ReaderState, context: Context, keys):
    """A chain, drawn token by token."""
    logits, cache = self.reader.catch_up(params, state, context, width=2)
    first, first_log_q = drawing.draw(keys, 0, logits, context.sampling)

    def step(cache, token, depth):
      slot = context.length + depth - 1
      logits, cache = self.reader.read(params, token[:, None], slot, cache)
      return logits[:, 0], cache

    more, more_log_q, cache = drawing.chain(
      step, cache, first, range(1, self.num_draft), keys, context.sampling
    )
    join = lambda one, rest: jnp.concatenate([one[:, None], rest], axis=1)
    draft = Draft(
      tokens=join(first, more),
      num_valid=jnp.full(first.shape, self.num_draft, jnp.int32),
      tree=trees.chain(self.num_draft),
      log_q=jax.tree.map(join, first_log_q, more_log_q),
    )
    seen = context.length + self.num_draft - 1
    return draft, ReaderState(cache=cache, seen=seen)


def pair(target: Model, draft: Model, num_draft: int = 4) -> tuple[DraftModel, Any]:
  """The drafter for a target, and its params.

  Raises:
    ValueError: the two tokenizers differ.
  """
  check_tokenizers(target, draft)
  drafter = DraftModel(draft.target, target.target.vocab_size, num_draft)
  return drafter, draft.params


def check_tokenizers(target: Model, draft: Model) -> None:
  """Raises ValueError where the two tokenizers differ."""
  if target.tokenizer.fingerprint != draft.tokenizer.fingerprint:
    sizes = [m.tokenizer.backend.get_vocab_size() for m in (draft, target)]
    raise ValueError(
      f'the tokenizer of draft model {draft.label} ({sizes[0]} tokens) is not that of '
      f'target {target.label} ({sizes[1]} tokens): the same id would mean different '
      'text. Take a draft model of the same family'
    )


def load(model: Model, *, source: str, num_draft: int = 4) -> tuple[DraftModel, Any]:
  """`pair` with the model at `source`: a preset, a directory, a GGUF file, a hub id.

  Several drafters of one source share its weights.
  """
  return pair(model, loaded(source), num_draft)


loaded = functools.lru_cache(maxsize=2)(load_model)


Drafter = DraftModel
