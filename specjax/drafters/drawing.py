"""How a drafter draws: one token, or a chain of them, in the way the verifier needs.

The warp is the target's own (`sampling.warp`), so that q is the law drawn from.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax import sampling as sampling_lib
from specjax.types import Array, Sampling


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
  if keys.greedy_only:
    logits = sampling_lib.biased(logits[:, None], sampling, vocab)[:, 0]
    return _tokens(sampling_lib.first_largest(logits), vocab), None
  log_q = sampling_lib.warp(logits[:, None], sampling, vocab)[:, 0]
  if keys.shared_noise:
    noise = keys_lib.gumbel(keys, (keys.length + depth)[:, None])[:, 0]
    noise = noise if vocab is None else noise[:, vocab]
    return _tokens(sampling_lib.first_largest(log_q + noise), vocab), None
  noise = keys_lib.noise(keys_lib.node_key(keys, depth), log_q.shape[-1])
  return _tokens(sampling_lib.first_largest(log_q + noise), vocab), log_q


def _tokens(columns: Array, vocab: Array | None) -> Array:
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
