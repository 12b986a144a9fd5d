"""The Llama family: GQA, rotary positions, gated MLP, RMS norm, tied or own head.

Matrices are stored [in, out] and apart (q, k, v, gate, up): on CPU that layout scores
five tokens in 1.4x the time of one, [out, in] takes 2x (XLA repacks it from two rows
on). A tied embedding is stored as the head reads it, [D, V].
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx

from specjax.targets import kv_cache, precision
from specjax.types import Array, TargetOutput


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
  """Shapes and constants, named as in Hugging Face's config.json where they agree."""

  vocab_size: int
  hidden_size: int
  intermediate_size: int
  num_layers: int
  num_heads: int
  num_kv_heads: int
  head_dim: int
  max_positions: int
  rope_theta: float = 10000.0
  norm_eps: float = 1e-5
  tied: bool = True


class Linear(nnx.Module):
  """x @ kernel, kernel [in, out]."""

  def __init__(self, num_in: int, num_out: int, rngs: nnx.Rngs):
    init = nnx.initializers.normal(num_in**-0.5)
    self.kernel = nnx.Param(init(rngs.params(), (num_in, num_out)))

  def __call__(self, x: Array) -> Array:
    return jnp.dot(x, self.kernel[...], precision=jax.lax.Precision.HIGHEST)


class RMSNorm(nnx.Module):
  """x / rms(x) * scale, in float32 at least."""

  def __init__(self, size: int, eps: float):
    self.scale = nnx.Param(jnp.ones((size,)))
    self.eps = eps

  def __call__(self, x: Array) -> Array:
    wide = x.astype(precision.wide(x))
    wide *= jax.lax.rsqrt(jnp.mean(wide**2, axis=-1, keepdims=True) + self.eps)
    return (wide * self.scale[...]).astype(x.dtype)


class Attention(nnx.Module):
  """Grouped-query attention that writes its window into the cache, then attends."""

  def __init__(self, cfg: TransformerConfig, rngs: nnx.Rngs):
    wide, narrow = cfg.num_heads * cfg.head_dim, cfg.num_kv_heads * cfg.head_dim
    self.q = Linear(cfg.hidden_size, wide, rngs)
    self.k = Linear(cfg.hidden_size, narrow, rngs)
    self.v = Linear(cfg.hidden_size, narrow, rngs)
    self.o = Linear(wide, cfg.hidden_size, rngs)
    self.cfg = cfg

  def __call__(self, x: Array, rope, keys: Array, values: Array, start, ancestors):
    cfg = self.cfg
    batch, window = x.shape[:2]
    split = lambda y: y.reshape(batch, window, -1, cfg.head_dim).swapaxes(1, 2)
    q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
    keys = kv_cache.write(keys, rotate(k, rope).astype(keys.dtype), start)
    values = kv_cache.write(values, v.astype(values.dtype), start)
    q = rotate(q, rope) * cfg.head_dim**-0.5
    q = q.reshape(batch, cfg.num_kv_heads, -1, window, cfg.head_dim)
    mixed = kv_cache.attend(q, keys, values, start, ancestors)
    mixed = mixed.reshape(batch, cfg.num_heads, window, cfg.head_dim).swapaxes(1, 2)
    return self.o(mixed.reshape(batch, window, -1)), keys, values


class MLP(nnx.Module):
  """down(silu(gate(x)) * up(x))."""

  def __init__(self, cfg: TransformerConfig, rngs: nnx.Rngs):
    self.gate = Linear(cfg.hidden_size, cfg.intermediate_size, rngs)
    self.up = Linear(cfg.hidden_size, cfg.intermediate_size, rngs)
    self.down = Linear(cfg.intermediate_size, cfg.hidden_size, rngs)

  def __call__(self, x: Array) -> Array:
    return self.down(jax.nn.silu(self.gate(x)) * self.up(x))


class Layer(nnx.Module):
  """Attention and MLP, each on a normed input and added to the stream."""

  def __init__(self, cfg: TransformerConfig, rngs: nnx.Rngs):
    self.attention_norm = RMSNorm(cfg.hidden_size, cfg.norm_eps)
    self.attention = Attention(cfg, rngs)
    self.mlp_norm = RMSNorm(cfg.hidden_size, cfg.norm_eps)
    self.mlp = MLP(cfg, rngs)


class Transformer(nnx.Module):
  """The weights. `Target` is what the decode loop calls."""

  def __init__(self, cfg: TransformerConfig, rngs: nnx.Rngs):
    self.cfg = cfg
    init = nnx.initializers.normal(cfg.hidden_size**-0.5)
    shape = (cfg.hidden_size, cfg.vocab_size)
    self.embedding = nnx.Param(init(rngs.params(), shape))
    self.layers = nnx.List([Layer(cfg, rngs) for _ in range(cfg.num_layers)])
    self.norm = RMSNorm(cfg.hidden_size, cfg.norm_eps)
    if not cfg.tied:
      self.head = nnx.Param(init(rngs.params(), shape))

  def __call__(
    self, tokens, positions, cache, *, slots, ancestors, logits_at, features_at
  ) -> TargetOutput:
    """See `specjax.types.Target`. Feature l is the stream after l layers."""
    x = jnp.take(self.embedding[...], tokens, axis=1).transpose(1, 2, 0)
    rope = rotary(positions, self.cfg, precision.wide(x))
    features, all_keys, all_values = {0: x}, [], []
    for depth, layer in enumerate(self.layers):
      kv = cache.keys[depth], cache.values[depth]
      y, keys, values = layer.attention(
        layer.attention_norm(x), rope, *kv, slots, ancestors
      )
      x = x + y
      x = x + layer.mlp(layer.mlp_norm(x))
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
    return y.astype(jnp.float32)


def rotary(positions: Array, cfg: TransformerConfig, dtype) -> tuple[Array, Array]:
  """Cosines and sines [B, 1, T, D/2] of arXiv 2104.09864, half-split form."""
  pair = jnp.arange(0, cfg.head_dim, 2, dtype=dtype)
  angle = positions[:, None, :, None].astype(dtype) * cfg.rope_theta ** (
    -pair / cfg.head_dim
  )
  return jnp.cos(angle), jnp.sin(angle)


def rotate(x: Array, rope: tuple[Array, Array]) -> Array:
  """Turns the pairs (x[i], x[i + D/2]) of x [B, heads, T, D]."""
  cos, sin = rope
  left, right = jnp.split(x, 2, axis=-1)
  turned = [left * cos - right * sin, right * cos + left * sin]
  return jnp.concatenate(turned, axis=-1).astype(x.dtype)


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
    return abstract(dataclasses.replace(self.cfg, num_layers=num_layers))[0]

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
  module = nnx.eval_shape(lambda: Transformer(cfg, nnx.Rngs(0)))
  graph, params = nnx.split(module)
  return TransformerTarget(cfg, graph), params
