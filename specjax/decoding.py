"""The whole generation as one compiled program: prefill, then rounds until all end.

A round drafts, scores, verifies, commits and updates: one target call, one to K + 1 new
tokens a row. `decode` runs rounds in a `lax.while_loop` without leaving the device;
`stream` runs the same round from the host and hands out tokens as they come. Plain
autoregressive decoding is the same loop with a drafter that drafts nothing.
"""

import dataclasses
import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp

from specjax import buffers, commit, sampling, trees
from specjax import keys as keys_lib
from specjax.stopping import StopStrings
from specjax.types import (
  Array,
  Context,
  DecodeState,
  Draft,
  Params,
  Sampling,
  Stats,
  TargetOutput,
  Window,
)


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
  log_p: bool = False,
  stop_strings: StopStrings | None = None,
) -> DecodeState:
  """A state before prefill, from prompts int32[B, L] of the given lengths."""
  batch, max_len = tokens.shape
  depth = drafter.num_draft
  count = lambda *shape: jnp.zeros((batch, *shape), jnp.int32)
  of_nodes = count(drafter.num_nodes) if drafter.num_nodes > depth else None
  return DecodeState(
    tokens=tokens,
    length=length,
    limit=limit,
    stop_ids=stop_ids,
    done=length >= limit,
    seed=seed,
    sampling=sampling,
    cache=target.init_cache(batch, buffers.cache_slots(max_len, drafter.num_nodes)),
    draft=drafter.init(params.for_drafter, batch, max_len),
    stats=Stats(count(), count(), count(), count(depth + 1), count(depth), of_nodes),
    trace=count(max_len),
    log_p=jnp.zeros((batch, max_len), jnp.float32) if log_p else None,
    stop_strings=jax.tree.map(jnp.copy, stop_strings),  # the caller's is not donated
  )


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=(3,))
def prefill(target, drafter, params: Params, state: DecodeState) -> DecodeState:
  """Scores each prompt but its last token, chunk by chunk; forms no logits."""
  batch = state.tokens.shape[0]
  prefix = state.length - 1

  def chunk(i, state):
    start = jnp.full((batch,), i * buffers.CHUNK)
    tokens = buffers.read(state.tokens, start, buffers.CHUNK + 1)
    out = target(
      params.target,
      tokens[:, :-1],
      start[:, None] + jnp.arange(buffers.CHUNK),
      state.cache,
      slots=start,
      ancestors=None,
      logits_at=jnp.zeros((batch, 0), jnp.int32),
      features_at=drafter.feature_layers,
    )
    count = jnp.clip(prefix - start, 0, buffers.CHUNK)
    window = Window(tokens, start, count, out.features)
    draft = drafter.update(params.for_drafter, state.draft, window)
    return dataclasses.replace(state, cache=out.cache, draft=draft)

  return jax.lax.fori_loop(0, -(-jnp.max(prefix) // buffers.CHUNK), chunk, state)


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
  keys = round_keys(target, verifier, state)
  draft, state = propose(drafter, params, keys, state)
  law = sampling.biased if verifier.greedy_only else sampling.warp

  def finish(draft, state):
    out = score(target, drafter, params, draft, state)
    log_p = law(out.logits, state.sampling)
    verdict = verifier(keys, draft, log_p)
    return commit.commit(target, drafter, params, state, draft, verdict, out)

  if drafter.num_draft == 0:
    return finish(draft, state)
  drafted = jnp.any(draft.num_valid > 0)
  state = buffers.when(drafted, functools.partial(finish, draft), state)
  return buffers.when(~drafted, functools.partial(finish, _without_nodes(draft)), state)


one_round = jax.jit(decode_round, static_argnums=(0, 1, 2), donate_argnums=(4,))


def round_keys(target, verifier, state: DecodeState) -> keys_lib.RoundKeys:
  """The randomness of the state's next round."""
  return keys_lib.row_keys(
    state.seed,
    state.length,
    target.vocab_size,
    shared_noise=verifier.shared_noise,
    greedy_only=verifier.greedy_only,
  )


def propose(drafter, params: Params, keys, state) -> tuple[Draft, DecodeState]:
  """The draft, within the budget, and the state with all that drafting changed."""
  draft, drafting = drafter.propose(
    params.for_drafter, state.draft, context(state), keys
  )
  _check_shape(drafter, draft)
  cache = state.cache if draft.cache is None else draft.cache
  draft = dataclasses.replace(draft, num_valid=_affordable(draft, state), cache=None)
  return draft, dataclasses.replace(state, draft=drafting, cache=cache)


def _check_shape(drafter, draft: Draft) -> None:
  """A wider draft would overrun the cache, a deeper one the statistics."""
  nodes, depth = draft.tokens.shape[1], trees.max_depth(draft.tree)
  silent = draft.tree.grown is not None and draft.tree.depth is None
  too_deep = depth > drafter.num_draft and not silent
  if nodes > drafter.num_nodes or too_deep:
    raise ValueError(
      f'{type(drafter).__name__} proposed {nodes} nodes {depth} deep; it declares '
      f'num_nodes = {drafter.num_nodes} and num_draft = {drafter.num_draft}'
    )


def score(target, drafter, params: Params, draft: Draft, state) -> TargetOutput:
  """One target call for the last committed token and the drafted ones."""
  last = state.length - 1
  tokens = jnp.concatenate([buffers.read(state.tokens, last, 1), draft.tokens], axis=1)
  depth, ancestors = jnp.arange(tokens.shape[1]), None
  if not trees.is_chain(draft.tree):
    ancestors = trees.ancestors(trees.parents(draft.tree, tokens.shape[0]))
    depth = trees.depths(ancestors)
  return target(
    params.target,
    tokens,
    last[:, None] + depth,
    state.cache,
    slots=last,
    ancestors=ancestors,
    logits_at=None,
    features_at=drafter.feature_layers,
  )


def _affordable(draft: Draft, state: DecodeState) -> Array:
  """Valid nodes within the budget: the last token wanted is the target's.

  Of a tree those before the first node that is too deep. Depths 1 1 2 2 3 and three
  tokens wanted: four nodes.
  """
  depth = jnp.arange(1, draft.tokens.shape[1] + 1)
  if not trees.is_chain(draft.tree):
    parents = trees.parents(draft.tree, len(draft.tokens))
    depth = trees.depths(trees.ancestors(parents))[:, 1:]
  too_deep = depth >= (state.limit - state.length)[:, None]
  before = jnp.sum(jnp.cumsum(too_deep, axis=1) == 0, axis=1)
  num_valid = jnp.minimum(draft.num_valid, before)
  return jnp.where(state.done, 0, num_valid).astype(jnp.int32)


def _without_nodes(draft: Draft) -> Draft:
  return dataclasses.replace(
    draft,
    tokens=draft.tokens[:, :0],
    tree=trees.chain(0),
    log_q=None if draft.log_q is None else draft.log_q[:, :0],
  )


def context(state: DecodeState) -> Context:
  """What the drafter may look at."""
  budget = state.limit - state.length
  return Context(state.tokens, state.length, budget, state.sampling, state.cache)
