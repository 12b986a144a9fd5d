"""In what precision a target computes."""

import jax
import jax.numpy as jnp

from specjax.types import Array


def wide(x: Array) -> jnp.dtype:
  """What norms, angles and sums are kept in: float32, or float64 where x is."""
  return jnp.promote_types(jnp.float32, x.dtype)


def einsum(subscripts: str, a: Array, b: Array) -> Array:
  """A product of activations, accumulated and returned in `wide`.

  HIGHEST, because accelerators otherwise multiply float32 in fewer bits, and then a row
  scored alone and among others differs by more than a near-tie.
  """
  return jnp.einsum(
    subscripts,
    a,
    b,
    precision=jax.lax.Precision.HIGHEST,
    preferred_element_type=wide(b),
  )
