"""Drafters that keep keys and values, on a transformer: their caches stay right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specjax
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.draft_tree import DraftTree
from specjax.drafters.growing import StaticTree
from specjax.drafters.self_speculative import SelfSpeculative
from specjax.testing.tiny import tiny_model
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection
from tests.decode_checks import greedy_trace

pytestmark = pytest.mark.usefixtures('compile_quickly')

MODEL, K, NEW = tiny_model(), 4, 40
# Lengths far apart: one token, and more than a prefill chunk.
PROMPTS = [list(b'?'), list(b'to be or not to be'), list(b'one two three ' * 11)]
MIXED = [dict(temperature=[0.0, 1.0, 0.7]), dict(temperature=[0.8, 0.0, 0.0])]
NEAR = jax.tree.map(  # often right, not always
  lambda ours, other: ours + 0.05 * other, MODEL.params, tiny_model(2).params
)


def decode(drafter, verifier, own=None, **settings):
  settings = dict(max_new_tokens=NEW, stop_ids=(), seed=[1, 2, 3]) | settings
  settings |= dict(drafter=drafter, verifier=verifier, drafter_params=own)
  return specjax.decode(MODEL, PROMPTS, **settings)


def check_text(done, settings, *, sampled: bool) -> None:
  base = decode(None, Gumbel(), **settings)
  for row, temperature in enumerate(settings['temperature']):
    if sampled or temperature == 0:
      assert done[row].tokens == base[row].tokens


def best_after_each(params, prompt, tokens) -> np.ndarray:
  """The most likely token at each new token's place, from one pass over the text."""
  text = np.zeros((1, 256), np.int32)
  text[0, : len(prompt) + NEW] = prompt + tokens
  logits = one_pass(params, text)[0]
  return np.argmax(logits, axis=-1)[len(prompt) - 1 :][:NEW]


@jax.jit
def one_pass(params, text):
  """Logits of whole texts [1, 256], scored at once from an empty cache."""
  return MODEL.target(
    params,
    text,
    jnp.arange(256)[None],
    MODEL.target.init_cache(1, 256),
    slots=jnp.zeros(1, jnp.int32),
    ancestors=None,
    logits_at=None,
    features_at=(),
  ).logits


def check_some_accepted(done) -> None:
  accepted = sum(completion.accepted for completion in done)
  assert 0 < accepted < sum(completion.drafted for completion in done)


@pytest.mark.parametrize('settings', MIXED, ids=['sampled', 'greedy'])
@pytest.mark.parametrize(
  'verifier', [Rejection(), Gumbel()], ids=['rejection', 'gumbel']
)
class TestDraftModel:
  DRAFTER = DraftModel(MODEL.target, MODEL.target.vocab_size, K)

  def test_with_the_targets_weights_is_always_right(self, verifier, settings):
    done = decode(self.DRAFTER, verifier, MODEL.params, **settings)
    check_text(done, settings, sampled=verifier.shared_noise)
    for completion in done:
      assert completion.accepted == completion.drafted
      assert completion.target_calls == NEW // (K + 1)

  def test_with_others_keeps_the_text(self, verifier, settings):
    done = decode(self.DRAFTER, verifier, NEAR, **settings)
    check_text(done, settings, sampled=verifier.shared_noise)
    check_some_accepted(done)
    for row, temperature in enumerate(settings['temperature']):
      if temperature == 0:
        best = best_after_each(NEAR, PROMPTS[row], done[row].tokens)
        assert done[row].trace == greedy_trace(best, done[row].tokens, K)


PATHS = (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (1, 0, 0), (0, 0, 0, 0)


@pytest.mark.parametrize('settings', MIXED, ids=['sampled', 'greedy'])
def test_a_tree_of_the_targets_weights_is_right_at_every_depth(settings):
  drafter = DraftTree(MODEL.target, MODEL.target.vocab_size, StaticTree(K, PATHS))
  done = decode(drafter, Gumbel(), MODEL.params, **settings)
  check_text(done, settings, sampled=True)
  for completion in done:
    assert completion.accepted == K * completion.target_calls
    assert completion.target_calls == NEW // (K + 1)


@pytest.mark.parametrize('settings', MIXED, ids=['sampled', 'greedy'])
def test_a_target_that_drafts_with_its_first_layer_keeps_its_text(settings):
  drafter = SelfSpeculative(MODEL.target, num_layers=1, num_draft=K)
  done = decode(drafter, Gumbel(), **settings)
  check_text(done, settings, sampled=True)
  check_some_accepted(done)
