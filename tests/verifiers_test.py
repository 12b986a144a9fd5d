"""Verifiers alone: how much they accept, and what by hand. Their law: the contract."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import trees
from specjax.testing import bushes, chains
from specjax.testing.chains import K, V
from specjax.types import Draft
from specjax.verifiers.block import Block
from specjax.verifiers.greedy import Greedy
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection
from specjax.verifiers.typical import Typical

ROWS = 200_000
GOLDEN_P = np.log([[0.5, 0.3, 0.2]] * V)
GOLDEN_Q = np.log([[0.2, 0.3, 0.5]] * V)
# Groups of rows: how many nodes count, and greedy or not.
NUM_VALID, TEMPERATURE = np.arange(ROWS) % (K + 1), np.arange(ROWS) // (K + 1) % 2


@pytest.mark.parametrize(
  'verifier, kind, want',
  [
    (Rejection(), 'drawn', 0.7),
    (Rejection(), 'one-hot', 0.2),
    (Rejection(), 'reduced', 0.2 + 0.2 / 0.7),
    (Gumbel(), 'shared noise', 41 / 65),
    (Gumbel(), 'one-hot', 0.2),
    (Gumbel(), 'drawn', 0.5 * 0.2 + 0.3 * 0.3 + 0.2 * 0.5),
  ],
)
def test_acceptance_is_the_formula(verifier, kind, want):
  draft = chains.propose(kind, GOLDEN_Q, np.full(ROWS, K))
  verdict, _ = chains.judge(verifier, draft, GOLDEN_P, np.ones(ROWS))
  for depth in range(K):
    reached = np.sum(verdict.num_accepted >= depth)
    rate = np.sum(verdict.num_accepted > depth) / reached
    assert abs(rate - want) < 4 * np.sqrt(want * (1 - want) / reached)


@pytest.mark.parametrize(
  'verifier, kind, want',
  [
    (Rejection(), 'independent', 0.76),
    (Rejection(), 'distinct', 0.82),
    (Rejection(), 'likeliest', 0.5),
    (Gumbel(), 'shared noise', 10567 / 11890),
  ],
)
def test_one_of_two_siblings_is_accepted_as_the_formula_says(verifier, kind, want):
  draft = bushes.propose(kind, GOLDEN_Q, np.full(ROWS, 2), paths=((0,), (1,)))
  verdict, _ = chains.judge(verifier, draft, GOLDEN_P, np.ones(ROWS))
  rate = np.mean(verdict.num_accepted)
  assert abs(rate - want) < 4 * np.sqrt(want * (1 - want) / ROWS)


def test_gumbel_emits_the_sample_that_its_noise_alone_decides():
  draft = chains.propose('one-hot', chains.DRAFTER, NUM_VALID)
  verdict, log_p = chains.judge(Gumbel(), draft, chains.TARGET, TEMPERATURE)
  sample = np.argmax(log_p + chains.shared_noise(ROWS), axis=-1)
  want = accepted_by_hand(draft, sample)
  np.testing.assert_array_equal(verdict.num_accepted, want)
  np.testing.assert_array_equal(verdict.next_token, sample[np.arange(ROWS), want])


def test_greedy_follows_the_first_largest_logit():
  rng = np.random.default_rng(0)
  logits = rng.integers(0, 3, (ROWS, K + 1, V)).astype(np.float32)  # many ties
  best = np.argmax(logits, axis=-1)
  nodes = np.where(
    rng.random((ROWS, K)) < 0.7, best[:, :-1], rng.integers(0, V, (ROWS, K))
  )
  tokens = jnp.asarray(nodes, jnp.int32)
  draft = Draft(tokens, jnp.asarray(NUM_VALID, jnp.int32), trees.chain(K))
  verdict = verify(Greedy(), draft, logits)
  want = accepted_by_hand(draft, best)
  np.testing.assert_array_equal(verdict.num_accepted, want)
  np.testing.assert_array_equal(verdict.next_token, best[np.arange(ROWS), want])


def verify(verifier, draft: Draft, log_p):
  keys = chains.round_keys(ROWS)
  return jax.device_get(chains.verify(verifier, keys, draft, log_p))


def accepted_by_hand(draft: Draft, choice: np.ndarray) -> np.ndarray:
  """Leading valid nodes that equal the target's choice."""
  agrees = np.asarray(draft.tokens) == choice[:, :-1]
  agrees &= np.arange(K) < np.asarray(draft.num_valid)[:, None]
  return np.where(agrees.all(axis=1), K, np.argmin(agrees, axis=1))


def test_block_verification_refuses_trees():
  tree = trees.Tree(static=(-1, -1, 0))
  draft = Draft(jnp.zeros((ROWS, K), jnp.int32), jnp.zeros(ROWS, jnp.int32), tree)
  with pytest.raises(ValueError, match='chains'):
    verify(Block(), draft, jnp.zeros((ROWS, K + 1, V)))


class TestTypical:
  """Medusa's rule by hand: p(x) > min(epsilon, delta exp(-H(p)))."""

  SURE, FLAT = (0.9, 0.08, 0.02), (0.4, 0.32, 0.28)  # H = 0.386 and 1.088

  def accepted(self, verifier: Typical, laws, tokens, tree) -> int:
    """Accepted nodes of one draft; laws behind the root and each node."""
    draft = Draft(jnp.array([tokens], jnp.int32), jnp.array([len(tokens)]), tree)
    with np.errstate(divide='ignore'):
      log_p = jnp.log(jnp.array([laws], jnp.float32))
    verdict = chains.verify(verifier, chains.round_keys(1), draft, log_p)
    return int(verdict.num_accepted[0])

  @pytest.mark.parametrize(
    'law, token, epsilon, delta, want',
    [
      (SURE, 1, 0.09, 0.3, 0),  # .08 < min(.09, .3 x .680)
      (SURE, 1, 0.07, 0.3, 1),
      (FLAT, 2, 0.5, 0.9, 0),  # .28 < .9 x .337 = .303
      (FLAT, 1, 0.5, 0.9, 1),  # .32 is more
      (FLAT, 2, 0.25, 0.9, 1),
      ((0, 1, 0), 1, 0.09, 0.3, 1),  # a greedy row
      ((0, 1, 0), 0, 0.09, 0.3, 0),
    ],
  )
  def test_one_node(self, law, token, epsilon, delta, want):
    verifier = Typical(epsilon, delta)
    assert self.accepted(verifier, [law, law], [token], trees.chain(1)) == want

  def test_the_longest_path_wins_and_laws_are_those_behind_parents(self):
    tree = trees.from_paths([(0,), (1,), (1, 0)])
    laws = [self.FLAT, self.SURE, self.FLAT, self.SURE]
    assert self.accepted(Typical(), laws, [0, 1, 2], tree) == 2  # 1, then 2 of .28
    laws = [self.FLAT, self.FLAT, self.SURE, self.FLAT]
    assert self.accepted(Typical(), laws, [0, 1, 2], tree) == 1  # 2 of .02 is too rare
