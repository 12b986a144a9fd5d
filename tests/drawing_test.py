"""Children of a node: their joint law, enumerated; what is certain, looked up."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from specjax import keys as keys_lib
from specjax import sampling
from specjax.drafters import drawing
from specjax.testing import laws

pytestmark = pytest.mark.usefixtures('compile_quickly')

V, ROWS, LENGTH = 4, 20_000, 7
# Two nodes, in rows 1 and 3 of the tree, with three children and two.
LOGITS = np.array([[0.3, 1.2, -0.5, 0.1], [1.0, -1.0, 0.4, 0.2]])
NODES, COUNTS = (1, 3), (3, 2)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _children(siblings, declared, rules, logits=LOGITS, vocab=None):
  seeds = jnp.arange(ROWS, dtype=jnp.uint32)
  keys = keys_lib.row_keys(seeds, jnp.full(ROWS, LENGTH), 9, **dict(declared))
  logits = jnp.broadcast_to(logits, (ROWS, *logits.shape))
  return drawing.children(keys, NODES, 2, logits, rules, COUNTS, siblings, vocab=vocab)


def children(siblings, declared=(), vocab=None, **rules):
  """Tokens int[ROWS, 5] and their laws float[ROWS, 5, V] or None, on the host."""
  rules = sampling.make_sampling(ROWS, **dict(temperature=1.0) | rules)
  tokens, log_q = jax.device_get(_children(siblings, declared, rules, LOGITS, vocab))
  return tokens, None if log_q is None else np.exp(log_q.astype(np.float64))


def without(law: np.ndarray, elders) -> np.ndarray:
  """The law given that its elders are gone; nothing left: zeros."""
  left = np.where(np.isin(np.arange(V), elders), 0, law)
  return left / max(left.sum(), 1e-300)


def joint_law(siblings: str) -> np.ndarray:
  """Of the two nodes' children together, float64[V, V, V, V, V]."""
  joint = np.zeros((V,) * 5)
  for tokens in itertools.product(range(V), repeat=5):
    chance = 1.0
    for child, (node, first) in enumerate([(0, 0), (0, 0), (0, 0), (1, 3), (1, 3)]):
      elders = tokens[first:child] if siblings == 'distinct' else ()
      chance *= without(laws.warped(LOGITS[node]), elders)[tokens[child]]
    joint[tokens] = chance
  return joint


@pytest.mark.parametrize('siblings', ['distinct', 'independent'])
def test_drawn_siblings_have_their_joint_law_and_carry_it(siblings):
  tokens, q = children(siblings)
  assert laws.p_value(tokens, joint_law(siblings).ravel(), V) > 1e-3
  for row in range(0, ROWS, 400):
    for child, (node, first) in enumerate([(0, 0), (0, 0), (0, 0), (1, 3), (1, 3)]):
      elders = tokens[row, first:child] if siblings == 'distinct' else ()
      want = without(laws.warped(LOGITS[node]), elders)
      np.testing.assert_allclose(q[row, child], want, atol=1e-6)


def test_where_q_is_used_up_the_likeliest_of_the_others_are_certain():
  tokens, q = children('distinct', top_k=2, temperature=np.arange(ROWS) % 2)
  best = np.argsort(-LOGITS, axis=1)
  warm = np.arange(ROWS) % 2 == 1
  assert np.all(tokens[~warm] == [*best[0, :3], *best[1, :2]])  # greedy: one is allowed
  assert np.all(np.sort(tokens[warm, :2], axis=1) == np.sort(best[0, :2]))
  assert np.all(tokens[warm, 2] == best[0, 2])
  one_hot = np.eye(V)[tokens]
  assert np.array_equal(q[~warm], one_hot[~warm])
  assert np.array_equal(q[warm][:, [1, 2, 4]], one_hot[warm][:, [1, 2, 4]])
  law = laws.warped(LOGITS[0], top_k=2)
  np.testing.assert_allclose(q[warm, 0], np.tile(law, (warm.sum(), 1)), atol=1e-6)
  seen = np.bincount(tokens[warm, 0], minlength=V)
  assert not np.any(seen[law == 0])
  assert stats.chisquare(seen[law > 0], law[law > 0] * warm.sum()).pvalue > 1e-3


def test_a_greedy_verifier_gets_the_likeliest():
  vocab = jnp.array([5, 0, 8, 2])
  tokens, log_q = children('independent', (('greedy_only', True),), vocab)
  best = np.asarray(vocab)[np.argsort(-LOGITS, axis=1)]
  assert log_q is None and np.all(tokens == [*best[0, :3], *best[1, :2]])


def test_the_likeliest_are_certain_for_every_verifier():
  tokens, log_q = children('likeliest', temperature=0.3)
  best = np.argsort(-LOGITS, axis=1)
  assert log_q is None and np.all(tokens == [*best[0, :3], *best[1, :2]])


@pytest.mark.parametrize('siblings', ['likeliest', 'independent'])
def test_shared_noise_orders_them_by_log_q_plus_the_targets_noise(siblings):
  vocab = jnp.array([5, 0, 8, 2])
  temperature = np.arange(ROWS) % 2
  declared = (('shared_noise', True),)
  tokens, log_q = children(siblings, declared, vocab, temperature=temperature)
  assert log_q is None
  keys = keys_lib.row_keys(jnp.arange(ROWS, dtype=jnp.uint32), jnp.full(ROWS, 7), 9)
  noise = np.asarray(keys_lib.gumbel(keys, jnp.full((ROWS, 1), LENGTH + 2)))[:, 0]
  warm = np.arange(ROWS) % 2 == 1
  for first, node, count in ((0, 0, 3), (3, 1, 2)):
    score = np.log(laws.warped(LOGITS[node])) + noise[:, np.asarray(vocab)]
    score = np.where(warm[:, None], score, LOGITS[node])
    best = np.asarray(vocab)[np.argsort(-score, axis=1)[:, :count]]
    assert np.array_equal(tokens[:, first : first + count], best)


def test_a_single_child_is_what_draw_gives():
  """A chain's parent at depth d stands in row d."""
  rules = sampling.make_sampling(3, temperature=[0.0, 1.0, 0.7])
  keys = keys_lib.row_keys(jnp.arange(3, dtype=jnp.uint32), jnp.full(3, LENGTH), V)
  logits = jnp.asarray(np.random.default_rng(0).normal(size=(3, V)), jnp.float32)
  rows, counts = (4,), (3,)

  @jax.jit
  def both(keys, logits):
    one = drawing.draw(keys, 4, logits, rules)
    logits = logits[:, None]
    return one, drawing.children(keys, rows, 4, logits, rules, counts, 'distinct')

  (token, log_q), (tokens, each) = both(keys, logits)
  assert np.array_equal(token, tokens[:, 0]) and np.array_equal(log_q, each[:, 0])


def test_of_equal_numbers_the_first_is_larger():
  x = jnp.array([[1.0, 3.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
  assert drawing.largest(x, 1).tolist() == [[1], [0]]
  assert drawing.largest(x, 4).tolist() == [[1, 2, 4, 3], [0, 1, 2, 3]]
