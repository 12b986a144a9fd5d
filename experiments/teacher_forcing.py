"""What the target thinks of a text that something else wrote.

A lossless method's greedy output must be the target's own choice at every position, up
to near-ties: scoring K + 1 rows at once rounds differently from scoring one, by at most
eps (`floor`), so a token may stand at most 2 eps below the best logit (statistics.md,
item 7). Comparing with the baseline's output cannot show that: after the first
difference the two are about different texts. `certify` reads the method's own output.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specjax import decoding, request, sampling
from specjax import keys as keys_lib
from specjax.drafters.autoregressive import Autoregressive
from specjax.types import Array, Params, Sampling
from specjax.verifiers.greedy import Greedy

Texts = Sequence[Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Forced:
  """One row's output under teacher forcing, an entry an emitted token."""

  best: np.ndarray  # int[n] the target's own choice after the text so far
  gap: np.ndarray  # float[n] its score less the emitted token's; 0 where they agree


@dataclasses.dataclass(frozen=True)
class Floor:
  """How far rounding alone moves a logit."""

  eps: float
  positions: int  # compared, over the whole vocabulary each


def certify(
  target,
  params,
  prompts: Texts,
  outputs: Texts,
  width: int = 1,
  score: Callable[[Array, int], Array] = lambda logits, column: logits,
):
  """A `Forced` a row. Width 1 scores as plain decoding does, K + 1 as a round does.

  The target's choice is the largest score(logits [B, V], output column): the logits
  themselves for greedy text, `gumbel_score` for text that shared noise chose.
  """
  best, gap = [], []
  emitted = _padded(outputs)
  for column, logits in enumerate(scores(target, params, prompts, outputs, width)):
    scored = score(logits, column)
    chosen = jnp.take_along_axis(scored, emitted[:, column, None], axis=1)[:, 0]
    best.append(sampling.first_largest(scored))
    gap.append(jnp.max(scored, axis=1) - chosen)
  all_best, all_gap = np.stack(best, axis=1), np.stack(gap, axis=1)
  return [
    Forced(all_best[row, : len(output)], all_gap[row, : len(output)])
    for row, output in enumerate(outputs)
  ]


@jax.jit
def law_score(logits: Array, rules: Sampling) -> Array:
  """log p under the rows' rules: -inf is impossible."""
  return sampling.warp(logits[:, None], rules)[:, 0]


@jax.jit
def gumbel_score(logits: Array, rules: Sampling, seeds: Array, positions: Array):
  """log p + g, what the gumbel verifier takes the largest of (arXiv 2408.07978).

  seeds uint32[B]; positions int32[B] of the token that is chosen.
  """
  keys = keys_lib.row_keys(seeds, positions, logits.shape[-1])
  return law_score(logits, rules) + keys_lib.gumbel(keys, positions[:, None])[:, 0]


def floor(target, params, prompts: Texts, outputs: Texts, width: int) -> Floor:
  """Largest logit difference between scoring one row and `width` rows of a text."""
  lengths = np.array([len(output) for output in outputs])
  one = scores(target, params, prompts, outputs, 1)
  many = scores(target, params, prompts, outputs, width)
  largest = [
    jnp.max(jnp.abs(a - b), axis=1, initial=0.0, where=(column < lengths)[:, None])
    for column, (a, b) in enumerate(zip(one, many))
  ]
  return Floor(float(np.max(largest)), int(lengths.sum()))


def scores(
  target, params, prompts: Texts, outputs: Texts, width: int
) -> Iterator[Array]:
  """Yields float32[B, V] for each output column: the logits that token was read from.

  The prompt is prefilled, then prompt and output run through the target in windows of
  `width`. Rows whose output has ended yield numbers that mean nothing.
  """
  columns = max(len(output) for output in outputs)
  windows = -(-columns // width)
  everything = Params(params)
  state = request.start(
    target,
    Autoregressive(),
    Greedy(),
    everything,
    prompts,
    max_new_tokens=windows * width,
  )
  cache = decoding.prefill(target, Autoregressive(), everything, state).cache
  last = np.array([len(prompt) - 1 for prompt in prompts])
  ends = [[prompt[-1], *output] for prompt, output in zip(prompts, outputs)]
  tokens = np.pad(_padded(ends), ((0, 0), (0, width)))
  for column in range(0, columns, width):
    window = tokens[:, column : column + width]
    logits, cache = _score(target, params, cache, window, last + column)
    yield from logits.swapaxes(0, 1)[: columns - column]


@functools.partial(jax.jit, static_argnums=0, donate_argnums=2)
def _score(target, params, cache, tokens, slots):
  out = target(
    params,
    tokens,
    slots[:, None] + jnp.arange(tokens.shape[1]),
    cache,
    slots=slots,
    ancestors=None,
    logits_at=None,
    features_at=(),
  )
  return out.logits, out.cache


def _padded(rows: Texts) -> np.ndarray:
  """int32[B, longest], zeros behind the shorter ones."""
  padded = np.zeros((len(rows), max(map(len, rows))), np.int32)
  for row, tokens in enumerate(rows):
    padded[row, : len(tokens)] = tokens
  return padded
