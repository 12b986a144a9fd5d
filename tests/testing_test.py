"""The table target and the exact laws, by brute force: what the other tests rest on."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from specjax.testing import laws
from specjax.testing.table import TableTarget

V = 3
ONE, TWO = (np.random.default_rng(0).normal(size=(V,) * n) for n in (2, 3))


def score(table, tokens, cache, start: int, logits_at=None):
  window = len(tokens)
  return TableTarget(V)(
    jnp.asarray(table, jnp.float32),
    jnp.array([tokens]),
    start + jnp.arange(window)[None],
    cache,
    slots=jnp.array([start]),
    ancestors=None,
    logits_at=logits_at,
    features_at=(2,),
  )


@pytest.mark.parametrize('table', [ONE, TWO])
def test_table_target_looks_up_the_last_tokens_through_its_cache(table):
  text = [2, 1, 0, 2, 2, 1]
  before = [0, *text[:-1]]
  want = table[text] if table is ONE else table[before, text]
  first = score(table, text[:2], TableTarget(V).init_cache(1, 9), 0)
  drafted = score(table, [0, 1, 1], first.cache, 2)  # rejected behind its first token
  second = score(table, text[3:], drafted.cache, 3, logits_at=jnp.array([[2, 0]]))
  np.testing.assert_allclose(first.logits[0], want[:2], rtol=1e-6)
  np.testing.assert_allclose(second.logits[0], want[[5, 3]], rtol=1e-6)
  np.testing.assert_array_equal(second.features[2][0], np.eye(V)[text[3:]])


def test_a_stale_slot_gives_another_law():
  right, stale = jnp.array([[2, 1, 0, 0]]), jnp.array([[2, 0, 0, 0]])
  outputs = [score(TWO, [2], cache, 2).logits for cache in (right, stale)]
  assert not np.allclose(*outputs)


@pytest.mark.parametrize('table', [ONE, TWO])
def test_sequence_law_is_the_product_along_each_sequence(table):
  warping, want = dict(temperature=0.7, top_k=2), []
  for tokens in itertools.product(range(V), repeat=3):
    text = [1, 2, *tokens]
    pairs = zip(text, text[1:])  # the last two tokens before each of the three
    rows = [table[b] if table is ONE else table[a, b] for a, b in pairs]
    want.append(np.prod([laws.warped(x, **warping)[t] for x, t in zip(rows, tokens)]))
  law = laws.sequence_law(table, [0, 1, 2], 3, **warping)
  np.testing.assert_allclose(law, want)
  assert law.sum() == pytest.approx(1)


def test_p_value_accepts_the_law_drawn_from_and_no_other():
  rng, law = np.random.default_rng(0), np.array([0.5, 0.3, 0.1999, 0.0001] + [0] * 5)
  cells = rng.choice(9, size=20_000, p=law)
  rows = np.stack([cells // V, cells % V], axis=1)
  assert laws.p_value(rows, law, V) > 0.01
  bent = np.array([0.52, 0.28, 0.1999, 0.0001] + [0] * 5)
  assert laws.p_value(rows, bent, V) < 1e-6
  impossible = np.array([0.5, 0.3001, 0.1999] + [0] * 6)
  assert laws.p_value(rows, impossible, V) == 0
  assert laws.p_value(rows[cells == 0], np.eye(9)[0], V) == 1
