"""A mixture of experts in place of an MLP (arXiv 1701.06538), as Qwen3's."""

import jax
import jax.numpy as jnp
from flax import nnx

from specjax.targets import precision
from specjax.targets.config import Experts
from specjax.types import Array


class MoE(nnx.Module):
  """The sum of the chosen experts' MLPs, weighted by the router's softmax.

  Every expert computes every token and those not chosen weigh nothing: static shapes,
  and the router's choice costs no gather of weights; the price is count / chosen times
  the arithmetic.
  """

  def __init__(self, hidden_size: int, experts: Experts, activation, rngs: nnx.Rngs):
    self.experts, self.activation = experts, activation
    inner, outer = hidden_size**-0.5, experts.size**-0.5
    draw = lambda scale, *shape: nnx.Param(
      nnx.initializers.normal(scale)(rngs.params(), shape)
    )
    self.router = draw(inner, hidden_size, experts.count)
    self.gate = draw(inner, experts.count, hidden_size, experts.size)
    self.up = draw(inner, experts.count, hidden_size, experts.size)
    self.down = draw(outer, experts.count, experts.size, hidden_size)

  def __call__(self, x: Array) -> Array:
    """x [B, T, D]."""
    gate = precision.einsum('btd,edf->btef', x, self.gate[...])
    up = precision.einsum('btd,edf->btef', x, self.up[...])
    weighted = self.activation(gate) * up * self.weights(x)[..., None]
    y = precision.einsum('btef,efd->btd', weighted.astype(x.dtype), self.down[...])
    return y.astype(x.dtype)

  def weights(self, x: Array) -> Array:
    """What each expert weighs for each token, [B, T, E]; 0 for those not chosen."""
    logits = precision.einsum('btd,de->bte', x, self.router[...])
    top, index = jax.lax.top_k(jax.nn.softmax(logits), self.experts.chosen)
    if self.experts.normalized:
      top /= jnp.sum(top, axis=-1, keepdims=True)
    chosen = index[..., None] == jnp.arange(self.experts.count)
    return jnp.sum(jnp.where(chosen, top[..., None], 0), axis=-2)
