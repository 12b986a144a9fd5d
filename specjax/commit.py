"""What a verdict does to the decode state: text, counts, ends of rows, the drafter."""

import dataclasses

import jax
import jax.numpy as jnp

from specjax import buffers, stopping, trees
from specjax.stopping import StopStrings
from specjax.types import Array, DecodeState, Draft, Stats, Verdict, Window


def commit(
  target, drafter, params, state, draft: Draft, verdict: Verdict, out
) -> DecodeState:
  """Writes accepted nodes and the next token, ends rows, tells the drafter."""
  cache, features = out.cache, out.features
  if not trees.is_chain(draft.tree):
    cache = target.keep_path(cache, state.length - 1, verdict.path)
    features = {at: _along_path(x, verdict.path) for at, x in features.items()}
  new = _new_tokens(draft, verdict)  # int32[B, K + 1]
  count, done, strings = _emitted(new, verdict.num_accepted + 1, state)
  depth = jnp.arange(new.shape[1])
  from_draft = jnp.where(depth < verdict.num_accepted[:, None], depth + 1, 0)
  window = Window(
    tokens=jnp.concatenate(
      [buffers.read(state.tokens, state.length - 1, 1), new], axis=1
    ),
    start=state.length - 1,
    count=count,
    features=features,
  )
  return dataclasses.replace(
    state,
    tokens=buffers.append(state.tokens, new, state.length, count),
    trace=buffers.append(state.trace, from_draft, state.length, count),
    log_p=_with_log_p(state, draft, verdict, out.logits, new, count),
    stats=_counted(state.stats, draft, verdict, count, state.done),
    length=state.length + count,
    done=done,
    stop_strings=strings,
    cache=cache,
    draft=drafter.update(params.for_drafter, state.draft, window),
  )


def _along_path(rows: Array, path: Array) -> Array:
  """The root's row and those of the accepted nodes, [B, K + 1, D] of [B, T, D]."""
  index = jnp.pad(path + 1, ((0, 0), (1, 0)))
  return jnp.take_along_axis(rows, index[..., None], axis=1)


def _new_tokens(draft: Draft, verdict: Verdict) -> Array:
  """Accepted nodes, then the next token, int32[B, K + 1]; the rest is of no use.

  draft 4 4 8, num_accepted 2, next_token 5 -> 4 4 5 5
  """
  nodes = jnp.take_along_axis(draft.tokens, verdict.path, axis=1)
  nodes = jnp.pad(nodes, ((0, 0), (0, 1)))
  accepted = jnp.arange(nodes.shape[1]) < verdict.num_accepted[:, None]
  return jnp.where(accepted, nodes, verdict.next_token[:, None])


def _with_log_p(state, draft: Draft, verdict: Verdict, logits, new, count):
  """Adds log p(new token), before temperature, filters and bias, where it is kept."""
  if state.log_p is None:
    return None
  if not trees.is_chain(draft.tree):
    logits = _along_path(logits, verdict.path)
  chosen = jnp.take_along_axis(logits, new[..., None], axis=-1)[..., 0]
  log_p = chosen - jax.nn.logsumexp(logits, axis=-1)
  return buffers.append(state.log_p, log_p, state.length, count)


def _emitted(
  new: Array, count: Array, state
) -> tuple[Array, Array, StopStrings | None]:
  """How many new tokens a row emits, up to the first that stops it, and if it ends."""
  depth = jnp.arange(new.shape[1])
  stops = jnp.any(new[..., None] == state.stop_ids[:, None, :], axis=-1)
  strings = state.stop_strings
  if strings is not None:
    after_each = stopping.advance(strings, new)
    stops |= after_each == stopping.FINAL
  stops &= depth < count[:, None]
  stopped = jnp.any(stops, axis=1)
  count = jnp.where(stopped, jnp.argmax(stops, axis=1) + 1, count)
  count = jnp.minimum(count, state.limit - state.length)
  count = jnp.where(state.done, 0, count).astype(jnp.int32)
  done = state.done | stopped | (state.length + count >= state.limit)
  if strings is not None:
    strings = stopping.after(strings, after_each, count)
  return count, done, strings


def _counted(stats: Stats, draft: Draft, verdict: Verdict, count, was_done) -> Stats:
  """Adds a round; what a stop token cut off was neither accepted nor emitted."""
  live = (~was_done).astype(jnp.int32)
  drafted = draft.num_valid * live
  accepted = jnp.minimum(verdict.num_accepted, count) * live
  one_hot = lambda x, size: (x[:, None] == jnp.arange(size)).astype(jnp.int32)
  depths = jnp.arange(stats.offered.shape[1])
  return Stats(
    target_calls=stats.target_calls + live,
    drafted=stats.drafted + drafted,
    accepted=stats.accepted + accepted,
    histogram=stats.histogram
    + one_hot(accepted, stats.histogram.shape[1]) * live[:, None],
    offered=stats.offered + (depths < _valid_depth(draft)[:, None] * live[:, None]),
    node_accepted=_per_node(stats.node_accepted, verdict.path, accepted),
  )


def _per_node(counts: Array | None, path: Array, accepted: Array) -> Array | None:
  """Adds a round; path 1 3 4, accepted 2: one more for nodes 1 and 3."""
  if counts is None:
    return None
  kept = jnp.arange(path.shape[1]) < accepted[:, None]
  rows = jnp.arange(len(path))[:, None]
  node = jnp.where(kept, path, counts.shape[1])
  return counts.at[rows, node].add(1, mode='drop')


def _valid_depth(draft: Draft) -> Array:
  """Generations among a row's valid nodes, int32[B]."""
  if trees.is_chain(draft.tree):
    return draft.num_valid
  depth = trees.depths(trees.ancestors(trees.parents(draft.tree, len(draft.tokens))))
  valid = jnp.arange(depth.shape[1]) <= draft.num_valid[:, None]
  return jnp.max(jnp.where(valid, depth, 0), axis=1)
