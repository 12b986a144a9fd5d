"""The border: prompts and settings are checked here and become a decode state."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from specjax import checks, decoding, sampling
from specjax.stopping import StopStrings
from specjax.types import DecodeState, Params

MIN_BUFFER = 256
STOP_IDS = 4


def start(
  target,
  drafter,
  verifier,
  params: Params,
  prompts: Sequence[Sequence[int]],
  *,
  max_new_tokens: int | Sequence[int],
  stop_ids: Sequence[int] | Sequence[Sequence[int]] = (),
  stop_strings: StopStrings | None = None,
  seed: int | Sequence[int] = 0,
  max_len: int | None = None,
  log_p: bool = False,
  logit_bias=None,
  **sampling_settings,
) -> DecodeState:
  """A state before prefill.

  Args:
    prompts: B lists of token ids.
    max_new_tokens: one number, or one a row.
    stop_ids: tokens that end a row, one list for all or one a row; the stop token
      itself is emitted.
    stop_strings: from `stopping.build`; the token that completes one is emitted.
    seed: 0 <= seed < 2**32, one for all rows or one a row. A row's output depends on
      its own prompt, settings and seed alone, so equal rows give equal text.
    max_len: the token buffer L; default: the next power of two that holds every row.
      Programs are compiled once a buffer length; time follows the used length.
    log_p: keep the log-probabilities of emitted tokens.
    logit_bias: {token: what is added to its logit}, for all rows or one dict a row.
    sampling_settings: temperature, top_k, top_p, min_p, see `sampling.make_sampling`.

  Raises:
    ValueError: what does not fit, with both numbers.
  """
  batch, vocab_size = len(prompts), target.vocab_size
  bias = None
  if logit_bias is not None:
    bias = sampling.bias_rows(logit_bias, batch, vocab_size)
  rules = sampling.make_sampling(batch, logit_bias=bias, **sampling_settings)
  if verifier.greedy_only and np.any(np.asarray(rules.temperature) > 0):
    raise ValueError(
      'the greedy verifier is exact at temperature 0 only, got temperature '
      f'{np.asarray(rules.temperature).tolist()}; use gumbel or rejection'
    )
  wanted = _per_row('max_new_tokens', max_new_tokens, batch, 2**31 - 1)
  seeds = _per_row('seed', seed, batch, 2**32 - 1)
  _check_prompts(prompts, vocab_size)
  lengths = np.array([len(prompt) for prompt in prompts])
  limits = lengths + wanted
  if max_len is not None:
    checks.whole('max_len', max_len, 1)
  buffer = max_len or _buffer(int(limits.max()))
  room = min(buffer, target.max_positions)
  for row in np.flatnonzero(limits > room):
    raise ValueError(
      f'prompt {row} has {lengths[row]} tokens and {wanted[row]} new ones are wanted: '
      f'{limits[row]} in all, but there is room for {room} (context '
      f'{target.max_positions}, buffer {buffer}); shorten the prompt or lower '
      'max_new_tokens'
    )
  tokens = np.zeros((batch, buffer), np.int32)
  for row, prompt in enumerate(prompts):
    tokens[row, : len(prompt)] = prompt
  return decoding.init_state(
    target,
    drafter,
    params,
    tokens=jnp.asarray(tokens),
    length=jnp.asarray(lengths, jnp.int32),
    limit=jnp.asarray(limits, jnp.int32),
    stop_ids=jnp.asarray(_stop_ids(stop_ids, batch, vocab_size)),
    stop_strings=stop_strings,
    seed=jnp.asarray(seeds, jnp.uint32),
    sampling=rules,
    log_p=log_p,
  )


def _stop_ids(given, batch: int, vocab_size: int) -> np.ndarray:
  """int32[B, M], filled up with -1 to a multiple of 4: programs depend on M."""
  given = list(given)
  one_each = bool(given) and not isinstance(given[0], int | np.integer)
  rows = [list(row) for row in given] if one_each else [given] * batch
  if len(rows) != batch:
    raise ValueError(f'stop_ids has {len(rows)} rows, there are {batch} prompts')
  for row, ids in enumerate(rows):
    if wrong := [i for i in ids if not 0 <= i < vocab_size]:
      raise ValueError(
        f'stop_ids of prompt {row} has {wrong[0]}, the target knows 0 to '
        f'{vocab_size - 1}'
      )
  width = -(-max(map(len, rows)) // STOP_IDS) * STOP_IDS or STOP_IDS
  table = np.full((batch, width), -1, np.int32)
  for row, ids in zip(table, rows):
    row[: len(ids)] = ids
  return table


def _buffer(length: int) -> int:
  return max(MIN_BUFFER, 1 << (length - 1).bit_length())


def _check_prompts(prompts: Sequence[Sequence[int]], vocab_size: int) -> None:
  if not prompts:
    raise ValueError('no prompts: give at least one')
  for row, prompt in enumerate(prompts):
    if len(prompt) == 0:
      raise ValueError(f'prompt {row} is empty: decoding needs at least one token')
    if np.asarray(prompt).dtype.kind not in 'iu':
      raise ValueError(f'prompt {row} must hold token ids (whole numbers): {prompt}')
    low, high = min(prompt), max(prompt)
    if low < 0 or high >= vocab_size:
      raise ValueError(
        f'prompt {row} holds token ids from {low} to {high}, the target knows 0 to '
        f'{vocab_size - 1}: is it from another tokenizer?'
      )


def _per_row(name: str, value, batch: int, most: int) -> np.ndarray:
  numbers = np.asarray(value)
  if numbers.shape not in ((), (batch,)) or numbers.dtype.kind not in 'iu':
    raise ValueError(
      f'{name} must be a whole number, or one a row: {batch} rows, got {value!r}'
    )
  if numbers.min() < 0 or numbers.max() > most:
    raise ValueError(f'{name} must be from 0 to {most}, got {value!r}')
  return np.broadcast_to(numbers, (batch,)).astype(np.int64)
