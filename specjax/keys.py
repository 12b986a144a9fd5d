"""Where every random number of a round comes from.

A row's key is fold_in(fold_in(fold_in(seed, length at round start), PURPOSE), node):
it depends on the row's own request alone, never on the batch it shares. Gumbel noise is
keyed by absolute position instead, so that the same seed gives the same text with any
drafter (arXiv 2408.07978). No other purpose may be: block and traversal verification
look at later nodes before they reject earlier ones, and noise that the next round meets
again at the same position would then bend their law.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

Array = jax.Array

DRAFT, ACCEPT, RESIDUAL = 1, 2, 3
_GUMBEL = np.uint32(2**31)  # beyond any length, which is folded in at the same place


@struct.dataclass
class RoundKeys:
  """The randomness of one round: call the functions of this module on it."""

  seed: Array  # key[B]
  length: Array  # int32[B] committed tokens when the round starts
  vocab_size: int = struct.field(pytree_node=False)  # the target's
  # What the round's verifier declares: see specjax.types.Verifier.
  shared_noise: bool = struct.field(pytree_node=False, default=False)
  greedy_only: bool = struct.field(pytree_node=False, default=False)


def row_keys(seed: Array, length: Array, vocab_size: int, **declared) -> RoundKeys:
  """Keys of a round from seeds uint32[B] and lengths int32[B]."""
  make = jax.vmap(lambda s: jax.random.key(s, impl='threefry2x32'))
  return RoundKeys(make(seed), length, vocab_size, **declared)


def row_key(keys: RoundKeys, purpose: int) -> Array:
  """One key a row, key[B], for a purpose that needs one draw a round."""
  at_length = jax.vmap(jax.random.fold_in)(keys.seed, keys.length)
  return _fold(at_length, purpose)


def node_key(keys: RoundKeys, node: Array | int) -> Array:
  """One key a row for a node's draft, key[B]."""
  return _fold(row_key(keys, DRAFT), node)


def node_keys(keys: RoundKeys, purpose: int, num_nodes: int) -> Array:
  """One key a node, key[B, N]."""
  fold = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
  return fold(row_key(keys, purpose), jnp.arange(num_nodes))


def uniforms(keys: RoundKeys, purpose: int, num_nodes: int) -> Array:
  """One coin a node, float32[B, N] in [0, 1)."""
  draw = jax.vmap(jax.vmap(jax.random.uniform))
  return draw(node_keys(keys, purpose, num_nodes))


def noise(keys: Array, size: int) -> Array:
  """Standard Gumbel noise float32[B, size] from key[B]: law + noise is a draw."""
  return jax.vmap(lambda key: jax.random.gumbel(key, (size,)))(keys)


def gumbel(keys: RoundKeys, positions: Array) -> Array:
  """Standard Gumbel noise float32[B, T, V] for the tokens at positions int32[B, T]."""
  at = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)))(
    _fold(keys.seed, _GUMBEL), positions
  )
  return jax.vmap(jax.vmap(lambda key: jax.random.gumbel(key, (keys.vocab_size,))))(at)


def _fold(keys: Array, purpose) -> Array:
  return jax.vmap(jax.random.fold_in, (0, None))(keys, purpose)
