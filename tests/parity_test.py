"""Our numbers are those of transformers, family by family.

In float64 throughout the difference is the rounding of our logits to float32; hidden
states, which are not rounded, agree to 1e-12. Rows are of unequal length; transformers
gets them padded on either side, we pad on the right, as the decode loop does.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import specjax
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.model import Model
from specjax.testing import toy_text
from tests import parity

EXACT, FLOAT32, HIDDEN = 1e-6, 1e-4, 1e-12
LENGTHS = np.array([64, 45])  # several windows long
TEXT = np.random.default_rng(0).integers(0, 256, (2, 64))


pytestmark = pytest.mark.usefixtures('compile_quickly')


@pytest.fixture(scope='module', params=parity.FAMILIES)
def saved(request, tmp_path_factory):
  """(directory, transformers' name) of a family."""
  name, settings = parity.FAMILIES[request.param]
  directory = tmp_path_factory.mktemp('model')
  parity.save(directory, name, settings)
  return directory, name


@pytest.fixture(scope='module')
def exact(saved):
  return parity.load(*saved, exact=True)


@pytest.fixture(scope='module')
def single(saved):
  return parity.load(*saved, exact=False)


def slots(*numbers):
  return jnp.array(numbers, jnp.int32)


def test_one_window_in_float32(single):
  ours = single.score(TEXT, single.cache(2, 64), slots(0, 0))
  assert parity.error(ours.logits, single.hugging_face(TEXT)[0]) <= FLOAT32


def test_padding_and_windows_of_three_and_one_in_float64(exact):
  """A prompt but for 4 tokens a row, then 3 of them, then the last."""
  start = LENGTHS - 4
  one = exact.score(TEXT, exact.cache(2, 68), slots(0, 0))
  rest = [np.stack([TEXT[row, n : n + 4] for row, n in enumerate(start)])]
  three = exact.score(rest[0][:, :3], one.cache, slots(*start))
  last = exact.score(rest[0][:, 3:], three.cache, slots(*(start + 3)))
  pieces = [(one, 0, start), (three, start, start + 3), (last, start + 3, LENGTHS)]
  for theirs in (padded_right(exact), padded_left(exact)):
    for row in range(2):
      for piece, begin, end in pieces:
        begin, end = np.broadcast_to(begin, 2)[row], np.broadcast_to(end, 2)[row]
        ours = [piece.logits, *piece.features.values()]
        errors = [
          parity.error(x[row, : end - begin], y[row, begin:end])
          for x, y in zip(ours, theirs)
        ]
        assert errors[0] <= EXACT and max(errors[1:]) <= HIDDEN, (row, begin, errors)


def padded_right(pair):
  """What transformers says of each row; row b's token i stands at [b, i]."""
  return pair.hugging_face(TEXT, mask=np.arange(64) < LENGTHS[:, None])


def padded_left(pair):
  shift = lambda x, by: np.stack([np.roll(row, n, axis=0) for row, n in zip(x, by)])
  mask = np.arange(64) >= 64 - LENGTHS[:, None]
  out = pair.hugging_face(shift(TEXT, 64 - LENGTHS), mask)
  return [shift(x, LENGTHS - 64) for x in out]


def test_greedy_text_is_that_of_transformers(single):
  """With drafts, far past the window, whatever is accepted."""
  model = Model(single.target, single.params, toy_text.toy_tokenizer(), 'tiny')
  prompts = [[5, 6, 7, 8] * 8, [1, 2, 3]]
  got = specjax.decode(
    model,
    prompts,
    drafter=PromptLookup(3, max_ngram=2, min_ngram=1),
    max_new_tokens=40,
    stop_ids=(),
  )
  for prompt, done in zip(prompts, got):
    logits = single.hugging_face([prompt + done.tokens])[0][0]
    assert done.tokens == logits.argmax(-1)[len(prompt) - 1 : -1].tolist()
  assert sum(done.accepted for done in got) > 0


@pytest.mark.parametrize('name', ['gemma2', 'gemma3_text'])
def test_a_text_of_several_blocks(name, tmp_path):
  """Windowed layers begin at a later block than those that see all."""
  family, settings = parity.FAMILIES[name]
  parity.save(tmp_path, family, settings)
  pair = parity.load(tmp_path, family, exact=True)
  text = np.random.default_rng(1).integers(0, 256, (1, 601))
  theirs, cache = pair.hugging_face(text), pair.cache(1, 700)
  for begin, end in ((0, 300), (300, 600), (600, 601)):
    ours = pair.score(text[:, begin:end], cache, slots(begin))
    cache = ours.cache
    assert parity.error(ours.logits, theirs[0][:, begin:end]) <= EXACT
    assert parity.error(ours.features[1], theirs[2][:, begin:end]) <= HIDDEN


@pytest.mark.parametrize('name', parity.STRETCHED)
def test_rotations_at_positions_of_thousands(name, tmp_path):
  """Positions are spread: only distances matter, a common shift would show nothing.

  In float32 an angle of thousands is off by 1e-4 on either side, so ours is compared
  with the exact logits, and with how far theirs are from them.
  """
  settings = dict(num_hidden_layers=1, head_dim=32, max_position_embeddings=8192)
  parameters = dict(rope_theta=5e5) | parity.STRETCHED[name]
  parity.save(tmp_path, 'Llama', settings | dict(rope_parameters=parameters))
  rng = np.random.default_rng(2)
  positions = np.sort(rng.choice(8192, (1, 64), replace=False))
  ours, theirs = {}, {}
  for exact in (True, False):
    pair = parity.load(tmp_path, 'Llama', exact)
    ours[exact] = pair.score(TEXT[:1], pair.cache(1, 64), slots(0), positions).logits
    theirs[exact] = pair.hugging_face(TEXT[:1], positions=positions)[0]
  assert parity.error(ours[True], theirs[True]) <= EXACT
  rounding = parity.error(theirs[False], theirs[True])
  assert parity.error(ours[False], theirs[True]) <= max(FLOAT32, 2 * rounding)
