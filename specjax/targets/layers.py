"""What a decoder is made of. `config.TransformerConfig` says which parts it has.

Matrices are stored [in, out] and apart (q, k, v, gate, up): on CPU that layout scores
five tokens in 1.4x the time of one, [out, in] takes 2x (XLA repacks it from two rows
on).
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

from specjax.targets import kv_cache, precision
from specjax.targets.config import LayerConfig, TransformerConfig
from specjax.targets.moe import MoE
from specjax.targets.rope import rotate
from specjax.types import Array

# By Hugging Face's names.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
  'silu': jax.nn.silu,
  'gelu_pytorch_tanh': functools.partial(jax.nn.gelu, approximate=True),
}


class Linear(nnx.Module):
  """x @ kernel, kernel [in, out]; plus bias [out]."""

  def __init__(self, num_in: int, num_out: int, bias: bool, rngs: nnx.Rngs):
    init = nnx.initializers.normal(num_in**-0.5)
    self.kernel = nnx.Param(init(rngs.params(), (num_in, num_out)))
    if bias:
      self.bias = nnx.Param(jnp.zeros((num_out,)))
    self.has_bias = bias

  def __call__(self, x: Array) -> Array:
    y = jnp.dot(x, self.kernel[...], precision=jax.lax.Precision.HIGHEST)
    return y + self.bias[...] if self.has_bias else y


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

  def __init__(self, cfg: TransformerConfig, layer: LayerConfig, rngs: nnx.Rngs):
    wide, narrow = cfg.num_heads * cfg.head_dim, cfg.num_kv_heads * cfg.head_dim
    self.q = Linear(cfg.hidden_size, wide, cfg.qkv_bias, rngs)
    self.k = Linear(cfg.hidden_size, narrow, cfg.qkv_bias, rngs)
    self.v = Linear(cfg.hidden_size, narrow, cfg.qkv_bias, rngs)
    self.o = Linear(wide, cfg.hidden_size, cfg.output_bias, rngs)
    if cfg.qk_norm:
      self.q_norm = RMSNorm(cfg.head_dim, cfg.norm_eps)
      self.k_norm = RMSNorm(cfg.head_dim, cfg.norm_eps)
    self.cfg, self.layer = cfg, layer

  def __call__(
    self, x: Array, positions, turned, keys: Array, values: Array, start, ancestors
  ):
    """x [B, T, D]; turned: `rope.rotary` of positions; keys, values [B, KV, S, D]."""
    cfg = self.cfg
    batch, window = x.shape[:2]
    split = lambda y: y.reshape(batch, window, -1, cfg.head_dim).swapaxes(1, 2)
    q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
    if cfg.qk_norm:
      q, k = self.q_norm(q), self.k_norm(k)
    keys = kv_cache.write(keys, rotate(k, turned).astype(keys.dtype), start)
    values = kv_cache.write(values, v.astype(values.dtype), start)
    q = rotate(q, turned) * (cfg.query_scale or cfg.head_dim**-0.5)
    mixed = kv_cache.attend(
      q.reshape(batch, cfg.num_kv_heads, -1, window, cfg.head_dim),
      keys,
      values,
      start,
      ancestors,
      positions=positions,
      reach=self.layer.sliding_window,
      softcap=cfg.attention_softcap,
    )
    mixed = mixed.reshape(batch, cfg.num_heads, window, cfg.head_dim).swapaxes(1, 2)
    return self.o(mixed.reshape(batch, window, -1)), keys, values


class MLP(nnx.Module):
  """down(activation(gate(x)) * up(x))."""

  def __init__(self, cfg: TransformerConfig, rngs: nnx.Rngs):
    size, wide = cfg.hidden_size, cfg.intermediate_size
    self.gate = Linear(size, wide, cfg.mlp_bias, rngs)
    self.up = Linear(size, wide, cfg.mlp_bias, rngs)
    self.down = Linear(wide, size, cfg.mlp_bias, rngs)
    self.activation = ACTIVATIONS[cfg.activation]

  def __call__(self, x: Array) -> Array:
    return self.down(self.activation(self.gate(x)) * self.up(x))


class Layer(nnx.Module):
  """Attention and MLP (or experts), each on a normed input and added to the stream."""

  def __init__(self, cfg: TransformerConfig, layer: LayerConfig, rngs: nnx.Rngs):
    norm = lambda: RMSNorm(cfg.hidden_size, cfg.norm_eps)
    self.attention_norm = norm()
    self.attention = Attention(cfg, layer, rngs)
    self.mlp_norm = norm()
    self.mlp: MLP | MoE = (
      MLP(cfg, rngs)
      if layer.experts is None
      else MoE(cfg.hidden_size, layer.experts, ACTIVATIONS[cfg.activation], rngs)
    )
    if cfg.post_norms:
      self.attention_post_norm, self.mlp_post_norm = norm(), norm()
    self.post_norms = cfg.post_norms

  def __call__(self, x: Array, *where):
    """x [B, T, D]; the rest goes to `Attention`. Returns (x, keys, values)."""
    y, keys, values = self.attention(self.attention_norm(x), *where)
    x = x + (self.attention_post_norm(y) if self.post_norms else y)
    y = self.mlp(self.mlp_norm(x))
    x = x + (self.mlp_post_norm(y) if self.post_norms else y)
    return x, keys, values
