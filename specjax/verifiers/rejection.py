"""Speculative rejection sampling, token by token.

Source: arXiv 2211.17192, algorithm 1. Node x, drawn from q, is accepted with
probability min(1, p(x) / q(x)); at the first rejection the token comes from the
residual, norm(max(0, p - q)); a row that accepts all its valid nodes draws its bonus
from p. A deterministic candidate has one-hot q: accepted with p(x), residual p without
x. Expected acceptance sum_x min(p(x), q(x)).
"""

import dataclasses

import jax
import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax import trees
from specjax.types import Array, Draft, Verdict
from specjax.verifiers import walk


@dataclasses.dataclass(frozen=True)
class Rejection:
  """Accepts with min(1, p / q), corrects from the residual."""

  lossless = True
  shared_noise = False
  greedy_only = False

  def __call__(self, keys, draft: Draft, log_p: Array) -> Verdict:
    """See `specjax.types.Verifier`."""
    if not trees.is_chain(draft.tree):
      raise ValueError(f'rejection verifies chains, the draft is a tree: {draft.tree}')
    num_nodes = draft.tokens.shape[1]
    log_ratio = _pick(log_p[:, :-1], draft.tokens) - _log_q_of_tokens(draft)
    coins = keys_lib.uniforms(keys, keys_lib.ACCEPT, num_nodes)
    num_accepted = walk.count_accepted(draft, jnp.log(coins) < log_ratio)

    log_law = walk.at_row(log_p, num_accepted)
    if num_nodes:
      rejected = num_accepted < draft.num_valid
      residual = _residual(log_law, draft, jnp.minimum(num_accepted, num_nodes - 1))
      log_law = jnp.where(rejected[:, None], residual, log_law)
    draw = jax.vmap(jax.random.categorical)
    next_token = draw(keys_lib.row_key(keys, keys_lib.RESIDUAL), log_law)
    path = walk.chain_path(draft)
    return Verdict(path, num_accepted, next_token.astype(jnp.int32))


def _pick(log_law: Array, tokens: Array) -> Array:
  return jnp.take_along_axis(log_law, tokens[..., None], axis=-1)[..., 0]


def _log_q_of_tokens(draft: Draft) -> Array:
  """log q of each drafted token, float32[B, N]."""
  if draft.log_q is None:
    return jnp.zeros(draft.tokens.shape, jnp.float32)
  columns = draft.tokens
  if draft.vocab is not None:
    columns = jnp.argmax(draft.vocab == draft.tokens[..., None], axis=-1)
  return _pick(draft.log_q, columns)


def _residual(log_p: Array, draft: Draft, node: Array) -> Array:
  """log of max(0, p - q) at one node a row, float32[B, V], not normalised."""
  p = jnp.exp(log_p)
  rows = jnp.arange(p.shape[0])
  if draft.log_q is None:
    left = p.at[rows, draft.tokens[rows, node]].set(0.0)
  else:
    columns = slice(None) if draft.vocab is None else draft.vocab
    q = jnp.exp(draft.log_q[rows, node])
    left = p.at[:, columns].add(-q)
  left = jnp.maximum(left, 0.0)
  nothing = jnp.sum(left, axis=-1, keepdims=True) == 0  # p = q up to rounding
  return jnp.log(jnp.where(nothing, p, left))


Verifier = Rejection
