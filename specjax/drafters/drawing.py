"""How a drafter draws: a token, a chain, a node's children, as the verifier needs it.

The warp is the target's own (`sampling.warp`), so that q is the law drawn from.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from specjax import keys as keys_lib
from specjax import sampling as sampling_lib
from specjax.types import Array, Sampling

SIBLINGS = 'likeliest', 'distinct', 'independent'
_FAR = 1e30  # beyond any log q + noise


def draw(
  keys: keys_lib.RoundKeys,
  depth: Array | int,
  logits: Array,
  sampling: Sampling,
  vocab: Array | None = None,
) -> tuple[Array, Array | None]:
  """A token for each row at a depth of the draft (0: right behind the text).

  Args:
    logits: float[B, V_q]; vocab int32[V_q] are its columns' tokens, None: the target's.

  Returns:
    int32[B] target tokens, and log q float32[B, V_q], or None where the verifier does
    not ask for it: a greedy one gets the most likely token, one with shared noise the
    token that the target's own noise picks from q (arXiv 2408.07978).
  """
  row = jnp.asarray(depth)[None]  # a chain's parent at depth d stands in row d
  tokens, log_q = children(
    keys, row, depth, logits[:, None], sampling, (1,), 'distinct', vocab
  )
  return tokens[:, 0], None if log_q is None else log_q[:, 0]


def children(
  keys: keys_lib.RoundKeys,
  rows: Array | Sequence[int],
  depth: Array | int,
  logits: Array,
  sampling: Sampling,
  counts: Sequence[int],
  siblings: str,
  vocab: Array | None = None,
) -> tuple[Array, Array | None]:
  """Children of M nodes: all of the first node's, then the second's, and so on.

  likeliest    the largest logits: certain (EAGLE-2, arXiv 2406.16858)
  distinct     drawn from q without replacement (Sequoia, arXiv 2402.12374)
  independent  drawn from q with replacement (SpecInfer, arXiv 2305.09781)

  A greedy verifier gets the likeliest in any case, one with shared noise the tokens of
  the largest log q + noise, the target's own at this depth.

  The law of a node is the one given its elder siblings. Where those of a distinct one
  have used q up, it is the likeliest token that q rules out, and its law is one-hot.
  That is exact, for a law may depend on the elders in any way, and of use where p is
  wider than q.

  q = (.5, .3, .2, 0), four children 1 0 2 3:
    laws (.5 .3 .2 0)  (.71 0 .29 0)  (0 0 1 0)  (0 0 0 1)

  Args:
    rows: int32[M], of the nodes in the tree, by which their noise is keyed; the root
      stands in row 0, node n in row n + 1.
    depth: of the children (0: right behind the text).
    logits: float[B, M, V_q], what follows each node.
    counts: how many children each node has; V_q at most.
    siblings: one of `SIBLINGS`.
    vocab: int32[V_q], the columns' tokens; None: the target's.

  Returns:
    int32[B, sum(counts)] target tokens, and their log q float32[B, sum(counts), V_q],
    or None where they are certain.
  """
  if siblings not in SIBLINGS:
    raise ValueError(f'siblings must be one of {SIBLINGS}, got {siblings!r}')
  most, size = max(counts), logits.shape[-1]
  node = np.repeat(np.arange(len(counts)), counts)
  rank = np.concatenate([np.arange(count) for count in counts])
  plain = sampling_lib.biased(logits, sampling, vocab)
  if keys.greedy_only or (siblings == 'likeliest' and not keys.shared_noise):
    return tokens_of(largest(plain, most)[:, node, rank], vocab), None
  log_q = sampling_lib.warp(logits, sampling, vocab)
  if keys.shared_noise:
    noise = _target_noise(keys, depth, vocab)[:, None]
  elif siblings == 'distinct':
    noise = _own_noise(keys, rows, size)
  else:
    noise = _own_noise(keys, rows, most * size).reshape(*log_q.shape[:2], most, size)
    columns = sampling_lib.first_largest(log_q[:, :, None] + noise)[:, node, rank]
    return tokens_of(columns, vocab), log_q[:, node]
  score = log_q + noise
  if most > 1:
    score = _allowed_first(score, log_q, plain)
  columns = largest(score, most)[:, node, rank]
  law = None if keys.shared_noise else _given_elders(log_q[:, node], columns, rank)
  return tokens_of(columns, vocab), law


def largest(x: Array, count: int) -> Array:
  """Columns of the largest numbers, int32[..., count]; of equal ones the first.

  On two CPU cores, of six rows of 49k, 4 or 10 take `top_k` 0.4 ms, and repeated
  maxima 1.1 or 2.6.
  """
  if count == 1:
    return sampling_lib.first_largest(x)[..., None]
  return jax.lax.top_k(x, count)[1].astype(jnp.int32)


def _own_noise(keys: keys_lib.RoundKeys, rows: Array | Sequence[int], size: int):
  """float32[B, M, size], each node's own."""
  of_row = lambda row: keys_lib.noise(keys_lib.node_key(keys, row), size)
  return jax.vmap(of_row, out_axes=1)(jnp.asarray(rows, jnp.int32))


def _target_noise(keys: keys_lib.RoundKeys, depth: Array | int, vocab: Array | None):
  """float32[B, V_q], what the target's token at this depth is chosen with."""
  noise = keys_lib.gumbel(keys, (keys.length + depth)[:, None])[:, 0]
  return noise if vocab is None else noise[:, vocab]


def _allowed_first(score: Array, log_q: Array, logits: Array) -> Array:
  """The score of what q allows; far below it, the logits of what q rules out."""
  best = jnp.max(logits, axis=-1, keepdims=True)
  best = jnp.maximum(best, jnp.finfo(best.dtype).min)  # all banned
  return jnp.where(log_q > -jnp.inf, score, _FAR * (logits - best - 1))


def _given_elders(log_q: Array, columns: Array, rank: np.ndarray) -> Array:
  """log q float32[B, n, V_q] without the columns int32[B, n] of elder siblings."""
  token, left = jnp.arange(log_q.shape[-1]), log_q
  for back in range(1, max(rank) + 1):
    elder = jnp.where(rank >= back, jnp.roll(columns, back, axis=1), -1)
    left = jnp.where(elder[..., None] == token, -jnp.inf, left)
  total = jax.nn.logsumexp(left, axis=-1, keepdims=True)
  certain = jnp.where(columns[..., None] == token, 0.0, -jnp.inf)
  renormalised = jnp.where(total > -jnp.inf, left - total, certain)
  return jnp.where((rank > 0)[:, None], renormalised, log_q)


def tokens_of(columns: Array, vocab: Array | None) -> Array:
  """The target tokens of columns."""
  return columns if vocab is None else vocab[columns].astype(jnp.int32)


def chain(
  step: Callable[[Any, Array, Array], tuple[Array, Any]],
  carry: Any,
  token: Array,
  depths: range,
  keys: keys_lib.RoundKeys,
  sampling: Sampling,
) -> tuple[Array, Array | None, Any]:
  """Feeds a token, draws the next, and so on.

  Args:
    step: (carry, token int32[B], depth) -> (logits float[B, V], carry): the model reads
      a token, and says what follows at this depth.
    token: int32[B], the first to be read: the last committed one, or depth 0's.
    depths: of the tokens to draw.

  Returns:
    Tokens int32[B, len(depths)], their log q or None, and the carry, which has not read
    the last token.
  """

  def one(carry, depth):
    token, carry = carry
    logits, carry = step(carry, token, depth)
    token, log_q = draw(keys, depth, logits, sampling)
    return (token, carry), (token, log_q)

  (_, carry), drawn = jax.lax.scan(one, (token, carry), jnp.array(depths, jnp.int32))
  tokens, log_q = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), drawn)
  return tokens, log_q, carry
