"""A table target of several layers, for drafters that are part of the target."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from specjax.model import Model
from specjax.targets import kv_cache
from specjax.testing import toy_text
from specjax.testing.table import TableTarget
from specjax.types import Array, TargetOutput


@dataclasses.dataclass(frozen=True)
class LayeredTable:
  """`TableTarget`s whose logits add up, each with a cache of its own.

  params is a tuple with one table a layer. What `SelfSpeculative` asks of a
  `TransformerTarget` is here too, so that its laws can be enumerated.
  """

  vocab_size: int
  num_layers: int = 2
  max_positions: int = 2**20

  def init_cache(self, batch: int, slots: int) -> kv_cache.KVCache:
    """Slots that hold token 0, in each layer."""
    layers = range(self.num_layers)
    return kv_cache.KVCache(
      tuple(self._table.init_cache(batch, slots) for _ in layers), ()
    )

  def __call__(self, params, tokens, positions, cache, **where) -> TargetOutput:
    """See `specjax.types.Target`."""
    outs = [
      self._table(table, tokens, positions, slots, **where)
      for table, slots in zip(params, cache.keys, strict=True)
    ]
    return TargetOutput(
      logits=sum((out.logits for out in outs[1:]), outs[0].logits),
      features=outs[0].features,
      cache=kv_cache.KVCache(tuple(out.cache for out in outs), ()),
    )

  def keep_path(self, cache: kv_cache.KVCache, start: Array, path: Array):
    """See `specjax.types.Target`."""
    keep = lambda slots: self._table.keep_path(slots, start, path)
    return kv_cache.KVCache(tuple(map(keep, cache.keys)), ())

  def first_layers(self, num_layers: int) -> 'LayeredTable':
    """The target cut to its first layers."""
    return dataclasses.replace(self, num_layers=num_layers)

  def first_params(self, params, num_layers: int):
    """The tables of `first_layers(num_layers)`."""
    return params[:num_layers]

  @property
  def _table(self) -> TableTarget:
    return TableTarget(self.vocab_size)


def layered_model(vocab_size: int, seed: int = 0) -> Model:
  """Two random tables. Logits are multiples of 1/64: sums of them are exact."""
  rng = np.random.default_rng(seed)
  tables = [scale * rng.normal(size=(vocab_size,) * 3) for scale in (1.6, 1.2)]
  params = tuple(jnp.asarray(np.round(x * 64) / 64, jnp.float32) for x in tables)
  tokenizer = dataclasses.replace(toy_text.toy_tokenizer(), stop_ids=())
  return Model(LayeredTable(vocab_size), params, tokenizer, f'layered-{vocab_size}')
