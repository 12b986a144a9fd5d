"""The target's own first layers as drafter, with its final norm and head.

Source: arXiv 2404.16710 (LayerSkip), 2309.08168 (skipped layers). No weights and no
cache of its own: it reads the target's keys and values of those layers, which are exact
for all that is committed, and writes its drafted tokens behind them, where the target
writes the same numbers when it scores the draft. A model that was not trained to exit
early accepts little.
"""

import dataclasses
import functools

import jax.numpy as jnp

from specjax import buffers, checks, trees
from specjax.drafters import drawing
from specjax.model import Model
from specjax.targets import kv_cache
from specjax.targets.transformer import TransformerTarget
from specjax.types import Context, Draft, Window


@dataclasses.dataclass(frozen=True)
class SelfSpeculative:
  """Drafts with the first `num_layers` layers of `target`, the one that verifies.

  Raises:
    ValueError: num_draft < 1; num_layers is not between 1 and the target's minus one.
  """

  target: TransformerTarget
  num_layers: int
  num_draft: int = 3
  feature_layers = ()

  def __post_init__(self):
    checks.whole('num_draft', self.num_draft, 1)
    _ = self.shallow  # refuses a wrong num_layers

  @functools.cached_property
  def shallow(self) -> TransformerTarget:
    """The model that drafts."""
    return self.target.first_layers(self.num_layers)

  @property
  def num_nodes(self) -> int:
    """A chain."""
    return self.num_draft

  def init(self, params, batch: int, max_len: int) -> None:
    """No state of its own."""

  def update(self, params, state: None, window: Window) -> None:
    """The target has updated the cache."""

  def propose(self, params, state: None, context: Context, keys):
    """Feeds the last committed token and its own, one at a time."""
    weights = self.target.first_params(params[1], self.num_layers)
    last = context.length - 1

    def step(cache, token, depth):
      slots = last + depth
      out = self.shallow(
        weights,
        token[:, None],
        slots[:, None],
        cache,
        slots=slots,
        ancestors=None,
        logits_at=None,
        features_at=(),
      )
      return out.logits[:, 0], out.cache

    cache = kv_cache.first(context.cache, self.num_layers)
    token = buffers.read(context.tokens, last, 1)[:, 0]
    tokens, log_q, cache = drawing.chain(
      step, cache, token, range(self.num_draft), keys, context.sampling
    )
    draft = Draft(
      tokens=tokens,
      num_valid=jnp.full(tokens.shape[0], self.num_draft, jnp.int32),
      tree=trees.chain(self.num_draft),
      log_q=log_q,
      cache=kv_cache.replace_first(context.cache, cache),
    )
    return draft, None


def load(model: Model, *, num_layers: int, num_draft: int = 3):
  """The drafter for a target, and its own params: none.

  Raises:
    ValueError: the target is no transformer of ours; see also `SelfSpeculative`.
  """
  if not isinstance(model.target, TransformerTarget):
    raise ValueError(
      'self_speculative needs a target made of layers (TransformerTarget), got '
      f'{type(model.target).__name__}'
    )
  return SelfSpeculative(model.target, num_layers, num_draft), None


Drafter = SelfSpeculative
