"""Many small drafted chains at once, and the law of what a verifier makes of them.

Laws over V tokens by the last token; every row's text ends in token 0 at LENGTH tokens.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from specjax import keys as keys_lib
from specjax import sampling, trees
from specjax.testing import laws
from specjax.types import Draft

V, K, LENGTH = 3, 3, 7
# Logits float[V, V] by the last token.
TARGET, DRAFTER = np.random.default_rng(0).normal(size=(2, V, V))
VOCAB = np.array([2, 0])  # a reduced draft vocabulary, not in order
# How nodes are chosen: drawn from q, likeliest, with the target's noise; and drawn from
# q over VOCAB.
KINDS = 'drawn', 'one-hot', 'shared noise', 'reduced'

_warp = jax.jit(sampling.warp)
verify = jax.jit(lambda verifier, *args: verifier(*args), static_argnums=0)


@functools.cache
def round_keys(rows: int) -> keys_lib.RoundKeys:
  """A seed a row."""
  seeds = jnp.arange(rows, dtype=jnp.uint32)
  return keys_lib.row_keys(seeds, jnp.full(rows, LENGTH), V)


@functools.cache
def shared_noise(rows: int) -> np.ndarray:
  """The target's own Gumbel noise, float32[rows, K + 1, V]."""
  positions = LENGTH + np.tile(np.arange(K + 1), (rows, 1))
  return np.asarray(jax.jit(keys_lib.gumbel)(round_keys(rows), positions))


def draws(law: np.ndarray, rng) -> np.ndarray:
  """One token a row of law [rows, V]."""
  below = np.cumsum(law, axis=-1)[:, :-1]
  return np.sum(rng.random((len(law), 1)) > below, axis=-1)


def propose(kind: str, logits: np.ndarray, num_valid: np.ndarray) -> Draft:
  """A chain behind token 0 by a drafter of these logits."""
  rng, rows = np.random.default_rng(1), len(num_valid)
  columns = VOCAB if kind == 'reduced' else np.arange(V)
  law = np.zeros((V, V))
  law[:, columns] = np.apply_along_axis(laws.warped, -1, logits[:, columns])
  tokens = [np.zeros(rows, int)]
  for depth in range(K):
    tokens.append(_next_node(kind, law[tokens[-1]], depth, rng))
  drawn = kind in ('drawn', 'reduced')
  log_q = np.log(law[np.stack(tokens[:-1], axis=1)][..., columns]) if drawn else None
  return Draft(
    tokens=jnp.asarray(np.stack(tokens[1:], axis=1), jnp.int32),
    num_valid=jnp.asarray(num_valid, jnp.int32),
    tree=trees.chain(K),
    log_q=None if log_q is None else jnp.asarray(log_q, jnp.float32),
    vocab=jnp.asarray(VOCAB, jnp.int32) if kind == 'reduced' else None,
  )


def _next_node(kind: str, law: np.ndarray, depth: int, rng) -> np.ndarray:
  if kind == 'one-hot':
    return np.argmax(law, axis=-1)
  if kind == 'shared noise':
    return np.argmax(np.log(law) + shared_noise(len(law))[:, depth], axis=-1)
  return draws(law, rng)


def log_law(draft: Draft, logits: np.ndarray, temperature: np.ndarray) -> jax.Array:
  """The target's log p float32[rows, N + 1, V] at the draft's rows."""
  scored = jnp.pad(draft.tokens, ((0, 0), (1, 0)))
  rules = sampling.make_sampling(len(scored), temperature=temperature)
  return _warp(jnp.asarray(logits, jnp.float32)[scored], rules)


def judge(verifier, draft: Draft, logits: np.ndarray, temperature: np.ndarray):
  """The verdict, and log p, both on the host."""
  log_p = log_law(draft, logits, temperature)
  keys = round_keys(len(draft.tokens))
  return jax.device_get((verify(verifier, keys, draft, log_p), log_p))


def emitted(draft: Draft, verdict, logits: np.ndarray, temperature) -> np.ndarray:
  """What each row emits, int[rows, K + 1]; continued by the target to one length."""
  rng, rows = np.random.default_rng(2), len(draft.tokens)
  warm = np.apply_along_axis(laws.warped, -1, logits)
  cold = np.apply_along_axis(laws.warped, -1, logits, temperature=0)
  tokens = [np.zeros(rows, int)]
  for depth in range(K + 1):
    law = np.where(temperature[:, None] > 0, warm[tokens[-1]], cold[tokens[-1]])
    token = np.where(depth == verdict.num_accepted, verdict.next_token, draws(law, rng))
    if depth < verdict.path.shape[1]:
      node = np.asarray(draft.tokens)[np.arange(rows), verdict.path[:, depth]]
      token = np.where(depth < verdict.num_accepted, node, token)
    tokens.append(token)
  return np.stack(tokens[1:], axis=1)
