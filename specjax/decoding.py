"""The whole generation as one compiled program: prefill, then rounds until all end.

A round drafts, scores, verifies, commits and updates: one target call, one to K + 1 new
tokens a row. `decode` runs rounds in a `lax.while_loop` without leaving the device;
`stream` runs the same round from the host and hands out tokens as they come. Plain
autoregressive decoding is the same loop with a drafter that drafts nothing.
"""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp

from specjax import keys as keys_lib
from specjax import sampling, trees
from specjax.types import (
  Array,
  Context,
  DecodeState,
  Draft,
  Params,
  Sampling,
  Stats,
  TargetOutput,
  Verdict,
  Window,
)

CHUNK = 128  # prompt tokens scored at once


def cache_slots(max_len: int, num_draft: int) -> int:
  """Slots that no window and no prefill chunk can overrun: writes would clamp."""
  return -(-max_len // CHUNK) * CHUNK + num_draft + 1


def init_state(
  target,
  drafter,
  params: Params,
  *,
  tokens: Array,
  length: Array,
  limit: Array,
  stop_ids: Array,
  seed: Array,
  sampling: Sampling,
) -> DecodeState:
  """A state before prefill, from prompts int32[B, L] of the given lengths."""
  batch, max_len = tokens.shape
  depth = drafter.num_draft
  count = lambda *shape: jnp.zeros((batch, *shape), jnp.int32)
  return DecodeState(
    tokens=tokens,
    length=length,
    limit=limit,
    stop_ids=stop_ids,
    done=length >= limit,
    seed=seed,
    sampling=sampling,
    cache=target.init_cache(batch, cache_slots(max_len, depth)),
    draft=drafter.init(_drafter_params(params), batch, max_len),
    stats=Stats(count(), count(), count(), count(depth + 1), count(depth)),
    trace=count(max_len),
  )


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=(3,))
def prefill(target, drafter, params: Params, state: DecodeState) -> DecodeState:
  """Scores each prompt but its last token, chunk by chunk; forms no logits."""
  batch = state.tokens.shape[0]
  prefix = state.length - 1

  def chunk(i, state):
    start = jnp.full((batch,), i * CHUNK)
    tokens = _read(state.tokens, start, CHUNK + 1)
    out = target(
      params.target,
      tokens[:, :-1],
      start[:, None] + jnp.arange(CHUNK),
      state.cache,
      slots=start,
      ancestors=None,
      logits_at=jnp.zeros((batch, 0), jnp.int32),
      features_at=drafter.feature_layers,
    )
    count = jnp.clip(prefix - start, 0, CHUNK)
    window = Window(tokens, start, count, out.features)
    draft = drafter.update(_drafter_params(params), state.draft, window)
    return state.replace(cache=out.cache, draft=draft)

  return jax.lax.fori_loop(0, -(-jnp.max(prefix) // CHUNK), chunk, state)


@functools.partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(4,))
def decode(target, drafter, verifier, params: Params, state) -> DecodeState:
  """Runs rounds until every row is done. The state is donated."""
  body = functools.partial(decode_round, target, drafter, verifier, params)
  return jax.lax.while_loop(lambda s: ~jnp.all(s.done), body, state)


def stream(target, drafter, verifier, params: Params, state) -> Iterator[DecodeState]:
  """Yields the state after every round; the one yielded before is donated."""
  while not jax.device_get(jnp.all(state.done)):
    state = one_round(target, drafter, verifier, params, state)
    yield state


def decode_round(target, drafter, verifier, params: Params, state) -> DecodeState:
  """Draft, score, verify, commit, update: one target call, 1..K+1 new tokens a row."""
  keys = keys_lib.row_keys(state.seed, state.length)
  draft, drafting = drafter.propose(
    _drafter_params(params), state.draft, _context(state), keys
  )
  draft = draft.replace(num_valid=_affordable(draft, state))
  state = state.replace(draft=drafting)

  def finish(draft, state):
    out = _score(target, drafter, params, draft, state)
    log_p = out.logits
    if not verifier.greedy_only:
      log_p = sampling.warp(log_p, state.sampling)
    verdict = verifier(keys, draft, log_p)
    return _commit(drafter, params, state, draft, verdict, out)

  if drafter.num_draft == 0:
    return finish(draft, state)
  drafted = jnp.any(draft.num_valid > 0)
  state = _when(drafted, functools.partial(finish, draft), state)
  return _when(~drafted, functools.partial(finish, _without_nodes(draft)), state)


one_round = jax.jit(decode_round, static_argnums=(0, 1, 2), donate_argnums=(4,))


def _score(target, drafter, params: Params, draft: Draft, state) -> TargetOutput:
  """One target call for the last committed token and the drafted ones."""
  last = state.length - 1
  tokens = jnp.concatenate([_read(state.tokens, last, 1), draft.tokens], axis=1)
  return target(
    params.target,
    tokens,
    last[:, None] + jnp.arange(tokens.shape[1]),
    state.cache,
    slots=last,
    ancestors=None,
    logits_at=None,
    features_at=drafter.feature_layers,
  )


def _commit(drafter, params, state, draft: Draft, verdict: Verdict, out) -> DecodeState:
  """Writes accepted nodes and the next token, ends rows, tells the drafter."""
  new = _new_tokens(draft, verdict)  # int32[B, K + 1]
  count, done = _emitted(new, verdict.num_accepted + 1, state)
  depth = jnp.arange(new.shape[1])
  from_draft = jnp.where(depth < verdict.num_accepted[:, None], depth + 1, 0)
  window = Window(
    tokens=jnp.concatenate([_read(state.tokens, state.length - 1, 1), new], axis=1),
    start=state.length - 1,
    count=count,
    features=out.features,
  )
  return state.replace(
    tokens=_append(state.tokens, new, state.length, count),
    trace=_append(state.trace, from_draft, state.length, count),
    stats=_counted(state.stats, draft, verdict, count, state.done),
    length=state.length + count,
    done=done,
    cache=out.cache,
    draft=drafter.update(_drafter_params(params), state.draft, window),
  )


def _new_tokens(draft: Draft, verdict: Verdict) -> Array:
  """Accepted nodes, then the next token, int32[B, K + 1]; the rest is of no use.

  draft 4 4 8, num_accepted 2, next_token 5 -> 4 4 5 5
  """
  nodes = jnp.take_along_axis(draft.tokens, verdict.path, axis=1)
  nodes = jnp.pad(nodes, ((0, 0), (0, 1)))
  accepted = jnp.arange(nodes.shape[1]) < verdict.num_accepted[:, None]
  return jnp.where(accepted, nodes, verdict.next_token[:, None])


def _emitted(new: Array, count: Array, state) -> tuple[Array, Array]:
  """How many new tokens a row emits, up to its first stop token, and if it ends."""
  depth = jnp.arange(new.shape[1])
  stops = jnp.any(new[..., None] == state.stop_ids[:, None, :], axis=-1)
  stops &= depth < count[:, None]
  stopped = jnp.any(stops, axis=1)
  count = jnp.where(stopped, jnp.argmax(stops, axis=1) + 1, count)
  count = jnp.where(state.done, 0, count).astype(jnp.int32)
  done = state.done | stopped | (state.length + count >= state.limit)
  return count, done


def _counted(stats: Stats, draft: Draft, verdict: Verdict, count, was_done) -> Stats:
  """Adds a round; what a stop token cut off was neither accepted nor emitted."""
  live = (~was_done).astype(jnp.int32)
  drafted = jnp.minimum(draft.num_valid, stats.offered.shape[1]) * live
  accepted = jnp.minimum(verdict.num_accepted, count) * live
  one_hot = lambda x, size: (x[:, None] == jnp.arange(size)).astype(jnp.int32)
  depths = jnp.arange(stats.offered.shape[1])
  return Stats(
    target_calls=stats.target_calls + live,
    drafted=stats.drafted + drafted,
    accepted=stats.accepted + accepted,
    histogram=stats.histogram
    + one_hot(accepted, stats.histogram.shape[1]) * live[:, None],
    offered=stats.offered + (depths < drafted[:, None]),
  )


def _affordable(draft: Draft, state: DecodeState) -> Array:
  """Valid nodes within the budget: the last token wanted is always the target's."""
  budget = state.limit - state.length
  num_valid = jnp.minimum(draft.num_valid, budget - 1)
  return jnp.where(state.done, 0, num_valid)


def _without_nodes(draft: Draft) -> Draft:
  return draft.replace(
    tokens=draft.tokens[:, :0],
    tree=trees.chain(0),
    log_q=None if draft.log_q is None else draft.log_q[:, :0],
  )


def _when(condition: Array, body, state: DecodeState) -> DecodeState:
  """body(state) if condition. A `lax.cond` that returns the cache would copy it."""
  once = lambda carry: (jnp.bool_(False), body(carry[1]))
  return jax.lax.while_loop(lambda carry: carry[0], once, (condition, state))[1]


def _read(buffer: Array, start: Array, count: int) -> Array:
  """buffer[b, start[b] : start[b] + count], int32[B, count]; past the end: the last."""
  index = start[:, None] + jnp.arange(count)
  return jnp.take_along_axis(buffer, index, axis=1, mode='clip')


def _append(buffer: Array, new: Array, length: Array, count: Array) -> Array:
  """Writes new[b, :count[b]] at length[b]; the rest is dropped."""
  column = jnp.arange(new.shape[1])
  index = jnp.where(column < count[:, None], length[:, None] + column, buffer.shape[1])
  rows = jnp.arange(buffer.shape[0])[:, None]
  return buffer.at[rows, index].set(new, mode='drop')


def _context(state: DecodeState) -> Context:
  return Context(state.tokens, state.length, state.limit - state.length, state.sampling)


def _drafter_params(params: Params):
  return params.drafter, params.target
