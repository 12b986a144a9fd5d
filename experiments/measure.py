"""Times one method on one batch of prompts: prefill and decode apart, or every round.

All runs of a comparison share one buffer length, so a method is compiled once.
"""

import dataclasses
import functools
import itertools
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import overlap
from experiments.methods import Method
from specjax import decoding, request
from specjax.drafters.oracle import Oracle
from specjax.model import Model
from specjax.types import Array, DecodeState, Params, Stats
from specjax.verifiers.rejection import Rejection

PROPOSALS, REPEATS = 8, 5  # drafts in one program, and how often it is timed


@dataclasses.dataclass(frozen=True, eq=False)
class Bench:
  """What all runs of a comparison share."""

  model: Model
  max_new_tokens: int
  max_len: int  # L
  filters: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # top_k, ...


@dataclasses.dataclass(frozen=True)
class Batch:
  """What is decoded together, by every method alike."""

  prompts: list[list[int]]
  seeds: list[int]


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
  """One method on one batch, read from the device."""

  prompts: list[list[int]]
  text: np.ndarray  # int32[B, L] prompt and output: what an oracle is given
  outputs: list[list[int]]  # B rows of new tokens
  traces: list[list[int]]  # for each of them: 0 or its draft depth
  stats: Stats  # numpy, per row
  prefill_s: float  # set-up of cache and drafter, and scoring the prompts
  decode_s: float  # until all rows end


@dataclasses.dataclass(frozen=True, eq=False)
class Rounds:
  """The same batch from the host, round by round."""

  text: np.ndarray  # as in Result
  round_s: list[float]
  round_drafted: list[bool]  # did any row draft
  draft_s: float  # one call of the drafter alone, 0 where there is none
  overlap: dict[str, list[float]] | None  # see `overlaps`


@dataclasses.dataclass(frozen=True)
class Warm:
  """What the first run of a method tells."""

  compile_s: float  # 0 where an earlier method, or jax's cache on disk, has it all
  round_s: float  # seconds of a round, on a short text
  draft_sampling: str  # none, deterministic, sampled, or shared_noise


def run(bench: Bench, method: Method, batch: Batch, known: Any = None) -> Result:
  """Decodes a batch; `known` int32[B, L] is the text given to an oracle."""
  began = time.perf_counter()
  static, params, state = _prefilled(bench, method, batch, known)
  ready = time.perf_counter()
  state = jax.block_until_ready(decoding.decode(*static, params, state))
  ended = time.perf_counter()
  parts = state.tokens, state.trace, state.length, state.stats
  text, trace, lengths, stats = jax.device_get(parts)
  new = [slice(len(p), length) for p, length in zip(batch.prompts, lengths)]
  return Result(
    prompts=batch.prompts,
    text=text,
    outputs=[row[part].tolist() for row, part in zip(text, new)],
    traces=[row[part].tolist() for row, part in zip(trace, new)],
    stats=stats,
    prefill_s=ready - began,
    decode_s=ended - ready,
  )


def rounds(bench: Bench, method: Method, batch: Batch, known: Any = None) -> Rounds:
  """Decodes a batch with `decoding.stream` and times each round."""
  (target, drafter, verifier), params, state = _prefilled(bench, method, batch, known)
  round_s: list[float] = []
  drafted = [0]
  began = time.perf_counter()
  for latest in decoding.stream(target, drafter, verifier, params, state):
    state = jax.block_until_ready(latest)
    now = time.perf_counter()
    round_s.append(now - began)
    drafted.append(int(jax.device_get(state.stats.drafted).sum()))
    began = time.perf_counter()
  return Rounds(
    text=jax.device_get(state.tokens),
    round_s=round_s,
    round_drafted=[after > before for before, after in itertools.pairwise(drafted)],
    draft_s=_draft_s((target, drafter, verifier), params, state),
    overlap=overlaps(bench, method, batch, known) if overlap.applies(method) else None,
  )


def overlaps(bench: Bench, method: Method, batch: Batch, known: Any = None) -> dict:
  """[total, weight] of the overlaps of all nodes, and of those that start a round."""
  (target, drafter, verifier), params, state = _prefilled(bench, method, batch, known)
  totals = np.zeros((2, 2))
  while True:
    each, weights = jax.device_get(overlap.of_round(target, drafter, params, state))
    for row, part in enumerate((np.s_[:], np.s_[:, :1])):
      totals[row] += np.sum(each[part] * weights[part]), np.sum(weights[part])
    if np.all(state.done):
      return dict(zip(('all', 'round_starts'), totals.tolist()))
    state = decoding.one_round(target, drafter, verifier, params, state)


def warm_up(bench: Bench, method: Method, batch: Batch, with_rounds: bool) -> Warm:
  """Compiles a method on the batch, which should be small."""
  known = jnp.zeros((len(batch.prompts), bench.max_len), jnp.int32)
  first, second = (_seconds(run, bench, method, batch, known) for _ in range(2))
  again = run(bench, method, batch, known)
  if with_rounds:
    rounds(bench, method, batch, known)
  static, params, state = _prefilled(bench, method, batch, known)
  return Warm(
    compile_s=max(first - second, 0.0),
    round_s=again.decode_s / int(again.stats.target_calls.max()),
    draft_sampling=_draft_sampling(static, params, state),
  )


def profile(bench: Bench, batch: Batch, method: Method, directory: Path) -> None:
  """Writes a JAX profile of one round, for TensorBoard or Perfetto."""
  known = jnp.zeros((len(batch.prompts), bench.max_len), jnp.int32)
  for recorded in (False, True):  # the first time may compile
    static, params, state = _prefilled(bench, method, batch, known)
    recording = jax.profiler.trace(str(directory)) if recorded else nullcontext()
    with recording:
      jax.block_until_ready(decoding.one_round(*static, params, state))


def _draft_sampling(static, params: Params, state: DecodeState) -> str:
  target, drafter, verifier = static
  if drafter.num_draft == 0:
    return 'none'
  law_wanted = functools.partial(_propose, (target, drafter, Rejection()))
  draft, _ = jax.eval_shape(law_wanted, params, state)
  if draft.log_q is None or verifier.greedy_only:
    return 'deterministic'
  return 'shared_noise' if verifier.shared_noise else 'sampled'


def _prefilled(bench: Bench, method: Method, batch: Batch, known):
  """(target, drafter, verifier), params and a state that is ready to decode."""
  model = bench.model
  static = model.target, method.drafter, method.verifier
  own = jnp.asarray(known) if isinstance(method.drafter, Oracle) else method.params
  params = Params(model.params, own)
  state = request.start(
    *static,
    params,
    batch.prompts,
    max_new_tokens=bench.max_new_tokens,
    stop_ids=model.tokenizer.stop_ids,
    seed=batch.seeds,
    max_len=bench.max_len,
    temperature=method.temperature,
    **bench.filters,
  )
  state = decoding.prefill(model.target, method.drafter, params, state)
  return static, params, jax.block_until_ready(state)


def _draft_s(static, params: Params, state: DecodeState) -> float:
  """Seconds of a proposal, in place as in a round. The state is donated."""
  if static[1].num_draft == 0:
    return 0.0
  times = []
  for _ in range(1 + REPEATS):
    began = time.perf_counter()
    state, _ = jax.block_until_ready(_proposals(static, params, state))
    times.append((time.perf_counter() - began) / PROPOSALS)
  return statistics.median(times[1:])  # the first one compiled


@functools.partial(jax.jit, static_argnums=0, donate_argnums=2)
def _proposals(static, params: Params, state: DecodeState):
  again = lambda _, carry: _propose(static, params, carry[1])
  first = _propose(static, params, state)
  draft, state = jax.lax.fori_loop(1, PROPOSALS, again, first)
  return state, draft


def _propose(static, params: Params, state: DecodeState):
  target, drafter, verifier = static
  keys = decoding.round_keys(target, verifier, state)
  return decoding.propose(drafter, params, keys, state)


def _seconds(function, *args) -> float:
  began = time.perf_counter()
  function(*args)
  return time.perf_counter() - began


def seeds(
  seed: int, indices: Sequence[int], repeats: int, turns: int = 1
) -> np.ndarray:
  """uint32[P, R, T]: prompt i, repeat r has seed fold_in(seed, i, r).

  A later turn t has fold_in(seed, i, r, t).
  """

  def one(index: Array, repeat: Array, turn: Array) -> Array:
    key = jax.random.fold_in(jax.random.key(seed, impl='threefry2x32'), index)
    first = jax.random.fold_in(key, repeat)
    later = jax.random.fold_in(first, turn)
    bits = lambda key: jax.random.bits(key, dtype=jnp.uint32)
    return jnp.where(turn == 1, bits(first), bits(later))

  over_turns = jax.vmap(one, (None, None, 0))
  over_repeats = jax.vmap(over_turns, (None, 0, None))
  table = jax.vmap(over_repeats, (0, None, None))
  numbers = jnp.asarray(indices), jnp.arange(repeats), jnp.arange(1, turns + 1)
  return np.asarray(table(*numbers))
