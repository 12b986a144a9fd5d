"""A decoder-only transformer as a target: Llama's shape and its relatives.

What a model has is in its `config.TransformerConfig`; `families` reads that from
config.json. A tied embedding is stored as the head reads it, [D, V].
"""

import dataclasses
import types
from typing import cast

import jax
import jax.numpy as jnp
from flax import nnx

from specjax.targets import kv_cache, precision
from specjax.targets.config import TransformerConfig
from specjax.targets.layers import Layer, RMSNorm
from specjax.targets.rope import rotary
from specjax.types import Array, TargetOutput


class Transformer(nnx.Module):
  """The weights. `Target` is what the decode loop calls."""

  def __init__(self, cfg: TransformerConfig, rngs: nnx.Rngs):
    self.cfg = cfg
    init = nnx.initializers.normal(cfg.hidden_size**-0.5)
    shape = (cfg.hidden_size, cfg.vocab_size)
    self.embedding = nnx.Param(init(rngs.params(), shape))
    depths = range(cfg.num_layers)
    self.layers = nnx.List([Layer(cfg, cfg.layer(depth), rngs) for depth in depths])
    self.norm = RMSNorm(cfg.hidden_size, cfg.norm_eps)
    if not cfg.tied:
      self.head = nnx.Param(init(rngs.params(), shape))

  def __call__(
    self, tokens, positions, cache, *, slots, ancestors, logits_at, features_at
  ) -> TargetOutput:
    """See `specjax.types.Target`. Feature l is the stream after l layers."""
    cfg = self.cfg
    x = jnp.take(self.embedding[...], tokens, axis=1).transpose(1, 2, 0)
    x = x * cfg.embedding_scale
    kinds = dict.fromkeys(cfg.layer(depth).rope for depth in range(cfg.num_layers))
    wide = precision.wide(x)
    turned = {kind: rotary(positions, kind, cfg.head_dim, wide) for kind in kinds}
    features, all_keys, all_values = {0: x}, [], []
    for depth, layer in enumerate(self.layers):
      kv = cache.keys[depth], cache.values[depth]
      turn = turned[cfg.layer(depth).rope]
      x, keys, values = layer(x, positions, turn, *kv, slots, ancestors)
      features[depth + 1] = x
      all_keys.append(keys)
      all_values.append(values)
    return TargetOutput(
      logits=self._logits(x, logits_at),
      features={at: features[at] for at in features_at},
      cache=kv_cache.KVCache(tuple(all_keys), tuple(all_values)),
    )

  def _logits(self, x: Array, logits_at: Array | None) -> Array:
    if logits_at is not None:
      x = jnp.take_along_axis(x, logits_at[..., None], axis=1)
    head = self.embedding if self.cfg.tied else self.head
    y = jnp.dot(self.norm(x), head[...], precision=jax.lax.Precision.HIGHEST)
    return kv_cache.capped(y, self.cfg.logit_softcap).astype(jnp.float32)


@dataclasses.dataclass(frozen=True)
class TransformerTarget:
  """A `specjax.types.Target`: static description and graph; arrays stay outside."""

  cfg: TransformerConfig
  graph: nnx.GraphDef

  @property
  def vocab_size(self) -> int:
    """Columns of the logits."""
    return self.cfg.vocab_size

  @property
  def max_positions(self) -> int:
    """The longest text, prompt and output, that the model was made for."""
    return self.cfg.max_positions

  def init_cache(self, batch: int, slots: int) -> kv_cache.KVCache:
    """An empty cache with room for `slots` tokens a row, in the default float."""
    cfg = self.cfg
    dtype = jnp.zeros(()).dtype
    return kv_cache.empty(
      cfg.num_layers, batch, cfg.num_kv_heads, slots, cfg.head_dim, dtype
    )

  def keep_path(self, cache: kv_cache.KVCache, start: Array, path: Array):
    """See `specjax.types.Target`."""
    return kv_cache.keep_path(cache, start, path)

  def first_layers(self, num_layers: int) -> 'TransformerTarget':
    """The same model cut to its first layers, with its own final norm and head.

    Raises:
      ValueError: unless 1 <= num_layers < the layers there are.
    """
    total = self.cfg.num_layers
    if not 1 <= num_layers < total:
      raise ValueError(
        f'cannot cut a model of {total} layers to its first {num_layers}: '
        f'give 1 to {total - 1}'
      )
    return abstract(self.cfg.first_layers(num_layers))[0]

  def first_params(self, params: nnx.State, num_layers: int) -> nnx.State:
    """The weights of `first_layers(num_layers)`: the same arrays, by reference."""
    layers = {depth: params['layers'][depth] for depth in range(num_layers)}
    return nnx.State({**params, 'layers': nnx.State(layers)})

  def __call__(self, params, tokens, positions, cache, **where) -> TargetOutput:
    """See `specjax.types.Target`."""
    return nnx.merge(self.graph, params)(tokens, positions, cache, **where)


def build(cfg: TransformerConfig, seed: int = 0) -> tuple[TransformerTarget, nnx.State]:
  """A target with random weights."""
  graph, params = nnx.split(Transformer(cfg, nnx.Rngs(seed)))
  return TransformerTarget(cfg, graph), params


def abstract(cfg: TransformerConfig) -> tuple[TransformerTarget, nnx.State]:
  """A target and the shapes of its weights; nothing is allocated."""
  # nnx.Rngs counts draws, which makes long traces quadratic.
  rngs = cast(nnx.Rngs, types.SimpleNamespace(params=lambda: jax.random.key(0)))
  module = nnx.eval_shape(lambda: Transformer(cfg, rngs))
  graph, params = nnx.split(module)
  return TransformerTarget(cfg, graph), params
