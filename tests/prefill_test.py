"""Chunks of a prompt: what the cache holds after them, and what a drafter is told."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from specjax import api, buffers, decoding
from specjax.drafters.oracle import Oracle
from specjax.testing.oracle_text import oracle_text
from specjax.testing.table import table_model
from specjax.testing.tiny import tiny_model
from specjax.types import Array, Window
from specjax.verifiers.greedy import Greedy

pytestmark = pytest.mark.usefixtures('compile_quickly')

LENGTHS = [1, 2, buffers.CHUNK - 1, buffers.CHUNK, buffers.CHUNK + 1, 300]


def prompts(vocab_size: int) -> list[list[int]]:
  rng = np.random.default_rng(0)
  return [rng.integers(0, vocab_size, length).tolist() for length in LENGTHS]


def decode(run: api.Run):
  static = run.target, run.drafter, run.verifier
  return decoding.decode(*static, run.params, run.state)


@pytest.fixture(scope='module')
def model():
  return tiny_model()


@jax.jit
def one_pass(params, tokens) -> Array:
  """Logits of whole texts int32[B, T] scored at once, from an empty cache."""
  target = tiny_model().target
  batch, length = tokens.shape
  return target(
    params,
    tokens,
    jnp.tile(jnp.arange(length), (batch, 1)),
    target.init_cache(batch, length),
    slots=jnp.zeros(batch, jnp.int32),
    ancestors=None,
    logits_at=None,
    features_at=(),
  ).logits


def test_logits_after_a_chunked_prompt_are_those_of_one_pass(model):
  run = api.begin(model, prompts(256), None, Greedy(), None, max_new_tokens=8)
  state, rows = run.state, np.arange(len(LENGTHS))
  last = np.array(LENGTHS) - 1
  got = model.target(
    model.params,
    buffers.read(state.tokens, state.length - 1, 1),
    last[:, None],
    state.cache,
    slots=state.length - 1,
    ancestors=None,
    logits_at=None,
    features_at=(),
  ).logits[:, 0]
  want = one_pass(model.params, state.tokens[:, :320])[rows, last]
  np.testing.assert_allclose(got, want, atol=2e-5)


def test_every_emitted_token_is_the_best_of_one_pass(model):
  run = api.begin(
    model, prompts(256), None, Greedy(), None, max_new_tokens=20, stop_ids=()
  )
  state = decode(run)
  logits = np.asarray(one_pass(model.params, state.tokens[:, :320]))
  for row, length in enumerate(LENGTHS):
    places = np.arange(length - 1, length + 19)
    emitted = logits[row, places, np.asarray(state.tokens)[row, places + 1]]
    np.testing.assert_allclose(emitted, logits[row, places].max(-1), atol=2e-5)


@struct.dataclass
class Told:
  """Of each position: the token, its feature, what followed, and how often told."""

  token: Array  # int32[B, L], as all of these
  feature: Array
  after: Array
  times: Array


@dataclasses.dataclass(frozen=True)
class Recorder:
  """Drafts as `inner` does, and notes its windows in its state."""

  inner: Any
  feature_layers = (0, 7)

  @property
  def num_draft(self) -> int:
    return self.inner.num_draft

  @property
  def num_nodes(self) -> int:
    return self.inner.num_nodes

  def init(self, params, batch: int, max_len: int):
    blank = lambda: jnp.zeros((batch, max_len), jnp.int32)
    return self.inner.init(params, batch, max_len), Told(*(blank() for _ in range(4)))

  def update(self, params, state, window: Window):
    inner, told = state
    note = lambda old, new: buffers.append(old, new, window.start, window.count)
    ones = jnp.ones_like(window.tokens[:, :-1])
    told = Told(
      note(told.token, window.tokens[:, :-1]),
      note(told.feature, jnp.argmax(window.features[7], axis=-1)),
      note(told.after, window.tokens[:, 1:]),
      note(told.times, buffers.read(told.times, window.start, ones.shape[1]) + ones),
    )
    return self.inner.update(params, inner, window), told

  def propose(self, params, state, context, keys):
    draft, inner = self.inner.propose(params, state[0], context, keys)
    return draft, (inner, state[1])


@pytest.mark.parametrize('stop_ids', [(), (3,)])
def test_a_drafter_is_told_every_scored_token_once_with_its_feature(stop_ids):
  model = table_model(5)
  settings = dict(max_new_tokens=[9, 20, 0, 30, 1, 17], stop_ids=stop_ids)
  plain = api.begin(model, prompts(5), None, Greedy(), None, **settings)
  base = api.completions(model, plain, decode(plain))
  recorder = Recorder(Oracle(4, 5, script=(4, -1, 0, 2)))
  text = oracle_text(prompts(5), base, width=512)
  run = api.begin(model, prompts(5), recorder, Greedy(), text, **settings)
  state = jax.device_get(decode(run))
  told = state.draft[1]
  for row, length in enumerate(state.length):
    written = state.tokens[row, :length]
    assert told.times[row].tolist() == [1] * (length - 1) + [0] * (512 - length + 1)
    np.testing.assert_array_equal(told.token[row, : length - 1], written[:-1])
    np.testing.assert_array_equal(told.feature[row, : length - 1], written[:-1])
    np.testing.assert_array_equal(told.after[row, : length - 1], written[1:])
