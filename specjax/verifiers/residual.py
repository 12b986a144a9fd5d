"""What rejection and block verification share: p / q of a token, and residuals."""

import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax import sampling, trees
from specjax.types import Array, Draft, Verdict
from specjax.verifiers import walk


def check_chain(draft: Draft, name: str) -> None:
  """Raises ValueError where the draft is a tree."""
  if not trees.is_chain(draft.tree):
    raise ValueError(f'{name} verifies chains, the draft is a tree: {draft.tree}')


def log_ratio(log_p: Array, draft: Draft) -> Array:
  """log p(x) - log q(x) of each drafted token x, float32[B, N]; q = 1 where none."""
  ratio = _pick(log_p[:, :-1], draft.tokens)
  if draft.log_q is None:
    return ratio
  columns = draft.tokens
  if draft.vocab is not None:
    columns = sampling.first_largest(draft.vocab == draft.tokens[..., None])
  return ratio - _pick(draft.log_q, columns)


def corrected(
  keys, draft: Draft, log_p: Array, num_accepted: Array, scale=1.0
) -> Verdict:
  """Ends a chain behind its accepted nodes with a draw from the residual, or p."""
  law = walk.at_row(log_p, num_accepted)
  log_law = log_residual(law, draft, num_accepted, scale)
  noise = keys_lib.noise(keys_lib.row_key(keys, keys_lib.RESIDUAL), law.shape[-1])
  next_token = sampling.first_largest(log_law + noise)
  return Verdict(walk.chain_path(draft), num_accepted.astype(jnp.int32), next_token)


def log_residual(log_p: Array, draft: Draft, num_accepted: Array, scale=1.0) -> Array:
  """log of max(0, scale * p - q) behind the accepted nodes, float32[B, V].

  Not normalised. p itself where all valid nodes were accepted: the bonus.

  Args:
    log_p: float32[B, V], the target's law behind the accepted nodes.
    scale: float32[B] or 1, block verification's probability of what was accepted.
  """
  if draft.tokens.shape[1] == 0:
    return log_p
  node = jnp.minimum(num_accepted, draft.tokens.shape[1] - 1)
  p, rows = jnp.exp(log_p), jnp.arange(log_p.shape[0])
  left = p * jnp.reshape(scale, (-1, 1))
  if draft.log_q is None:
    left = left.at[rows, draft.tokens[rows, node]].set(0.0)
  else:
    columns = slice(None) if draft.vocab is None else draft.vocab
    left = left.at[:, columns].add(-jnp.exp(draft.log_q[rows, node]))
  left = jnp.maximum(left, 0.0)
  nothing = jnp.sum(left, axis=-1, keepdims=True) == 0  # p = q up to rounding
  bonus = (num_accepted >= draft.num_valid)[:, None]
  return jnp.where(nothing | bonus, log_p, jnp.log(left))


def _pick(log_law: Array, tokens: Array) -> Array:
  return jnp.take_along_axis(log_law, tokens[..., None], axis=-1)[..., 0]
