"""An independent smaller language model as drafter.

Sources: arXiv 2211.17192, 2302.01318. It keeps a cache of its own. `seen` counts the
tokens whose keys and values are right there, and a round starts by reading what is
committed and unseen, two tokens at a time and the last two always: rewriting a slot
with what it holds is harmless, so full acceptance, rejection and rounds without a draft
all leave the cache right.

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
from flax import struct

from specjax import buffers, checks, trees
from specjax.drafters import drawing
from specjax.model import Model
from specjax.model import load as load_model
from specjax.types import Array, Context, Draft, PyTree, Window


@struct.dataclass
class DraftModelState:
  """The draft model's own cache, and how far it is right."""

  cache: PyTree
  seen: Array  # int32[B]


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

  def init(self, params, batch: int, max_len: int) -> DraftModelState:
    """An empty cache."""
    if params[0] is None:
      raise ValueError('draft_model needs its weights: pass drafter_params (see pair)')
    if max_len > self.model.max_positions:
      raise ValueError(
        f'the buffer holds {max_len} tokens and the draft model was made for '
        f'{self.model.max_positions}: pass max_len={self.model.max_positions} or less, '
        'or take another draft model'
      )
    slots = buffers.cache_slots(max_len, self.num_draft)
    return DraftModelState(
      cache=self.model.init_cache(batch, slots), seen=jnp.zeros(batch, jnp.int32)
    )

  def update(self, params, state: DraftModelState, window: Window) -> DraftModelState:
    """Reads the window where it follows what was read: a prompt, or an undrafted round.

    A drafted round has read it already, and its rejected tokens are forgotten.
    """
    follows = (state.seen == window.start) & (window.count > 0)
    no_rows = jnp.zeros((len(follows), 0), jnp.int32)

    def read(cache):
      tokens = window.tokens[:, :-1]
      return self._read(params, tokens, window.start, cache, no_rows)[1]

    cache = buffers.when(jnp.any(follows), read, state.cache)
    end = window.start + window.count
    seen = jnp.where(follows, end, jnp.minimum(state.seen, end))
    return DraftModelState(cache=cache, seen=seen)

  def propose(self, params, state: DraftModelState, context: Context, keys):
    """A chain, drawn token by token."""
    logits, cache = self._catch_up(params, state, context)
    first, first_log_q = drawing.draw(keys, 0, logits, context.sampling)

    def step(cache, token, depth):
      slot = context.length + depth - 1
      logits, cache = self._read(params, token[:, None], slot, cache)
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
    return draft, DraftModelState(cache=cache, seen=seen)

  def _catch_up(self, params, state: DraftModelState, context: Context):
    """Reads the unseen text; logits float[B, V] behind it, and the cache."""
    last = context.length - 1

    def two(carry):
      seen, cache, _ = carry
      start = jnp.maximum(jnp.minimum(seen, last - 1), 0)
      tokens = buffers.read(context.tokens, start, 2)
      row = jnp.minimum(last - start, 1)[:, None]
      logits, cache = self._read(params, tokens, start, cache, row)
      return start + 2, cache, logits[:, 0]

    unseen = lambda carry: jnp.any(carry[0] <= last)
    logits = jnp.zeros((last.shape[0], self.vocab_size), jnp.float32)
    carry = state.seen, state.cache, logits
    _, cache, logits = jax.lax.while_loop(unseen, two, carry)
    return logits, cache

  def _read(self, params, tokens, start, cache, rows=None):
    """Logits float32[B, R, V] of rows int32[B, R] (None: all), and the cache."""
    out = self.model(
      params[0],
      jnp.minimum(tokens, self.model.vocab_size - 1),
      start[:, None] + jnp.arange(tokens.shape[1]),
      cache,
      slots=start,
      ancestors=None,
      logits_at=rows,
      features_at=(),
    )
    return self._in_target_vocabulary(out.logits), out.cache

  def _in_target_vocabulary(self, logits: Array) -> Array:
    logits = logits[..., : self.vocab_size].astype(jnp.float32)
    missing = ((0, 0), (0, 0), (0, self.vocab_size - logits.shape[-1]))
    return jnp.pad(logits, missing, constant_values=-jnp.inf)


def pair(target: Model, draft: Model, num_draft: int = 4) -> tuple[DraftModel, Any]:
  """The drafter for a target, and its params.

  Raises:
    ValueError: the two tokenizers differ.
  """
  if target.tokenizer.fingerprint != draft.tokenizer.fingerprint:
    sizes = [m.tokenizer.backend.get_vocab_size() for m in (draft, target)]
    raise ValueError(
      f'the tokenizer of draft model {draft.label} ({sizes[0]} tokens) is not that of '
      f'target {target.label} ({sizes[1]} tokens): the same id would mean different '
      'text. Take a draft model of the same family'
    )
  drafter = DraftModel(draft.target, target.target.vocab_size, num_draft)
  return drafter, draft.params


def load(model: Model, *, source: str, num_draft: int = 4) -> tuple[DraftModel, Any]:
  """`pair` with the model at `source`: a preset, a directory, a GGUF file, a hub id.

  Several drafters of one source share its weights.
  """
  return pair(model, _loaded(source), num_draft)


_loaded = functools.lru_cache(maxsize=2)(load_model)


Drafter = DraftModel
