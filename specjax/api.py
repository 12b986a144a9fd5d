"""Decode prompts with any drafter and verifier, in one call."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from specjax import decoding, request, stopping
from specjax.drafters.autoregressive import Autoregressive
from specjax.model import Model
from specjax.types import DecodeState, Params
from specjax.verifiers.greedy import Greedy
from specjax.verifiers.gumbel import Gumbel


@dataclasses.dataclass(frozen=True)
class Completion:
  """One row's output and its counts; emitted tokens only (statistics.md, item 5)."""

  text: str  # without what a stop string cut off
  tokens: list[int]  # the output, a stop token or the end of a stop string included
  trace: list[int]  # for each token: 0 = the target's own, d = accepted at depth d
  target_calls: int
  drafted: int
  accepted: int
  accepted_histogram: list[int]  # rounds by number of accepted tokens, 0 .. K
  # Rounds that accepted each node, of static trees; None where N = K.
  node_accepted: list[int] | None = None
  # For each token log p before bias, temperature and filters, where asked for.
  log_p: list[float] | None = None

  @property
  def mean_accepted_length(self) -> float:
    """tau: emitted tokens per target call; plain decoding has 1.0."""
    return len(self.tokens) / max(self.target_calls, 1)


def decode(
  model: Model,
  prompts: str | Sequence[str | Sequence[int]],
  *,
  drafter=None,
  verifier=None,
  drafter_params=None,
  **settings,
) -> list[Completion]:
  """Completes prompts; the whole generation runs on the device.

  Args:
    prompts: text, or token ids as from `model.chat`; one or several.
    drafter: a `specjax.types.Drafter`; None decodes autoregressively.
    verifier: a `specjax.types.Verifier`; None: greedy at temperature 0, else gumbel.
    drafter_params: the drafter's own arrays, where it has any.
    settings: max_new_tokens (128), temperature, top_k, top_p, min_p, logit_bias, seed,
      stop_ids (the tokenizer's), stop_strings (one list for all prompts or one a
      prompt), log_p (return log-probabilities), max_len; see `request.start`.

  Raises:
    ValueError: what does not fit, with both numbers.
  """
  run = begin(model, prompts, drafter, verifier, drafter_params, **settings)
  static = run.target, run.drafter, run.verifier
  state = decoding.decode(*static, run.params, run.state)
  return completions(model, run, state)


def stream(
  model: Model, prompt, *, drafter=None, verifier=None, drafter_params=None, **settings
) -> Iterator[tuple[list[int], list[int]]]:
  """Yields (new tokens, their trace) of one prompt after each round."""
  if not _is_one(prompt):
    raise ValueError(f'stream takes one prompt, got {len(prompt)}')
  return _streamed(begin(model, prompt, drafter, verifier, drafter_params, **settings))


def _streamed(run: 'Run') -> Iterator[tuple[list[int], list[int]]]:
  seen = run.prompt_lengths[0]
  static = run.target, run.drafter, run.verifier
  for state in decoding.stream(*static, run.params, run.state):
    tokens, trace, length = jax.device_get((state.tokens, state.trace, state.length))
    yield tokens[0, seen : length[0]].tolist(), trace[0, seen : length[0]].tolist()
    seen = length[0]


@dataclasses.dataclass(frozen=True)
class Run:
  """A prefilled request, ready for `decoding.decode` or `decoding.stream`."""

  target: Any
  drafter: Any
  verifier: Any
  params: Params
  state: DecodeState
  prompt_lengths: list[int]
  stop_strings: list[Sequence[str]]  # a list a row


def begin(model, prompts, drafter, verifier, drafter_params, **settings) -> Run:
  """Validates, fills in defaults and prefills."""
  settings = {
    'max_new_tokens': 128,
    'stop_ids': model.tokenizer.stop_ids,
    **settings,
  }
  if _is_one(prompts):
    prompts = [prompts]
  prompts = [model.tokenizer.encode(p) if isinstance(p, str) else p for p in prompts]
  drafter = drafter or Autoregressive()
  verifier = verifier or default_verifier(settings.get('temperature', 0))
  params = Params(target=model.params, drafter=drafter_params)
  static = model.target, drafter, verifier
  strings = _per_row(settings.pop('stop_strings', ()), len(prompts))
  if any(strings):
    settings['stop_strings'] = stopping.build(
      model.tokenizer.token_bytes, strings, model.target.vocab_size
    )
  state = request.start(*static, params, prompts, **settings)
  state = decoding.prefill(model.target, drafter, params, state)
  return Run(*static, params, state, [len(prompt) for prompt in prompts], strings)


def _per_row(strings, batch: int) -> list[Sequence[str]]:
  """Stop strings as a list a row; ['Q:', 'A:'] is one list for all of them."""
  if isinstance(strings, str):
    strings = [strings]
  if all(isinstance(string, str) for string in strings):
    return [strings] * batch
  if len(strings) != batch:
    raise ValueError(f'stop_strings has {len(strings)} lists for {batch} prompts')
  return list(strings)


def _is_one(prompts) -> bool:
  """Is this a text or a flat sequence of token ids, rather than several of them?"""
  if isinstance(prompts, str):
    return True
  return len(prompts) > 0 and isinstance(prompts[0], int | np.integer)


def default_verifier(temperature):
  """Greedy where every row is greedy, else gumbel: exact for every drafter."""
  return Gumbel() if np.any(np.asarray(temperature) > 0) else Greedy()


def completions(model: Model, run: Run, state: DecodeState) -> list[Completion]:
  """Reads a finished state from the device, once."""
  parts = state.tokens, state.trace, state.length, state.stats, state.log_p
  tokens, trace, lengths, stats, log_p = jax.device_get(parts)
  decode = model.tokenizer.decode
  return [
    Completion(
      text=stopping.cut(decode(tokens[row, begin:end].tolist()), run.stop_strings[row]),
      tokens=tokens[row, begin:end].tolist(),
      trace=trace[row, begin:end].tolist(),
      target_calls=int(stats.target_calls[row]),
      drafted=int(stats.drafted[row]),
      accepted=int(stats.accepted[row]),
      accepted_histogram=stats.histogram[row].tolist(),
      node_accepted=None
      if stats.node_accepted is None
      else stats.node_accepted[row].tolist(),
      log_p=None if log_p is None else log_p[row, begin:end].tolist(),
    )
    for row, (begin, end) in enumerate(zip(run.prompt_lengths, lengths))
  ]
