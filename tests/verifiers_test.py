"""Verifiers alone: the law of what they emit, and how much they accept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import keys as keys_lib
from specjax import sampling, trees
from specjax.testing import laws
from specjax.types import Draft
from specjax.verifiers.block import Block
from specjax.verifiers.greedy import Greedy
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection

V, K, ROWS, LENGTH = 3, 3, 200_000, 7
# Next-token logits by the last token. Every row's text ends in token 0.
TARGET, DRAFTER = np.random.default_rng(0).normal(size=(2, V, V))
VOCAB = np.array([2, 0])  # a reduced draft vocabulary, not in order
GOLDEN_P = np.log([[0.5, 0.3, 0.2]] * V)
GOLDEN_Q = np.log([[0.2, 0.3, 0.5]] * V)
# Groups of rows: how many nodes count, and greedy or not.
NUM_VALID, TEMPERATURE = np.arange(ROWS) % (K + 1), np.arange(ROWS) // (K + 1) % 2

verify = jax.jit(lambda verifier, *args: verifier(*args), static_argnums=0)


@pytest.fixture(scope='module')
def keys() -> keys_lib.RoundKeys:
  seeds = jnp.arange(ROWS, dtype=jnp.uint32)
  return keys_lib.row_keys(seeds, jnp.full(ROWS, LENGTH), V)


@pytest.fixture(scope='module')
def noise(keys) -> np.ndarray:
  positions = LENGTH + np.tile(np.arange(K + 1), (ROWS, 1))
  return np.asarray(jax.jit(keys_lib.gumbel)(keys, positions))


def draws(law: np.ndarray, rng) -> np.ndarray:
  """One token a row of law [ROWS, V]."""
  below = np.cumsum(law, axis=-1)[:, :-1]
  return np.sum(rng.random((len(law), 1)) > below, axis=-1)


def next_node(kind: str, law: np.ndarray, noise: np.ndarray, rng) -> np.ndarray:
  if kind == 'one-hot':
    return np.argmax(law, axis=-1)
  if kind == 'shared noise':
    return np.argmax(np.log(law) + noise, axis=-1)
  return draws(law, rng)


def propose(kind: str, logits, noise, num_valid) -> Draft:
  """A chain behind token 0 by a drafter of these logits, by the last token."""
  rng = np.random.default_rng(1)
  columns = VOCAB if kind == 'reduced' else np.arange(V)
  law = np.zeros((V, V))
  law[:, columns] = np.apply_along_axis(laws.warped, -1, logits[:, columns])
  tokens = [np.zeros(ROWS, int)]
  for depth in range(K):
    tokens.append(next_node(kind, law[tokens[-1]], noise[:, depth], rng))
  log_q = np.log(law[np.stack(tokens[:-1], axis=1)][..., columns])
  return Draft(
    tokens=jnp.asarray(np.stack(tokens[1:], axis=1), jnp.int32),
    num_valid=jnp.asarray(num_valid, jnp.int32),
    tree=trees.chain(K),
    log_q=jnp.asarray(log_q, jnp.float32) if kind in ('drawn', 'reduced') else None,
    vocab=jnp.asarray(VOCAB) if kind == 'reduced' else None,
  )


def judge(verifier, keys, draft: Draft, logits, temperature):
  """The verdict, and log p [ROWS, K + 1, V]."""
  scored = jnp.pad(draft.tokens, ((0, 0), (1, 0)))
  rules = sampling.make_sampling(ROWS, temperature=temperature)
  log_p = sampling.warp(jnp.asarray(logits, jnp.float32)[scored], rules)
  return jax.device_get(verify(verifier, keys, draft, log_p)), np.asarray(log_p)


def emitted(draft: Draft, verdict, logits, temperature) -> np.ndarray:
  """What each row emits, int[ROWS, K + 1]; continued by the target to one length."""
  rng = np.random.default_rng(2)
  warm = np.apply_along_axis(laws.warped, -1, logits)
  cold = np.apply_along_axis(laws.warped, -1, logits, temperature=0)
  tokens = [np.zeros(ROWS, int)]
  for depth in range(K + 1):
    law = np.where(temperature[:, None] > 0, warm[tokens[-1]], cold[tokens[-1]])
    token = np.where(depth == verdict.num_accepted, verdict.next_token, draws(law, rng))
    if depth < K:
      node = np.asarray(draft.tokens)[np.arange(ROWS), verdict.path[:, depth]]
      token = np.where(depth < verdict.num_accepted, node, token)
    tokens.append(token)
  return np.stack(tokens[1:], axis=1)


@pytest.mark.parametrize(
  'verifier, kind',
  [
    (Rejection(), 'drawn'),
    (Rejection(), 'one-hot'),
    (Rejection(), 'reduced'),
    (Block(), 'drawn'),
    (Block(), 'one-hot'),
    (Block(), 'reduced'),
    (Gumbel(), 'drawn'),
    (Gumbel(), 'one-hot'),
    (Gumbel(), 'shared noise'),
  ],
)
def test_what_is_emitted_has_the_target_law(verifier, kind, keys, noise):
  draft = propose(kind, DRAFTER, noise, NUM_VALID)
  verdict, _ = judge(verifier, keys, draft, TARGET, TEMPERATURE)
  assert np.all(verdict.num_accepted <= NUM_VALID)
  tokens = emitted(draft, verdict, TARGET, TEMPERATURE)
  for temperature in (0, 1):
    law = laws.sequence_law(TARGET, [0], K + 1, temperature=temperature)
    for num_valid in range(K + 1):
      group = (TEMPERATURE == temperature) & (NUM_VALID == num_valid)
      p_value = laws.p_value(tokens[group], law, V)
      assert p_value > 1e-3, (temperature, num_valid, p_value)


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
def test_acceptance_is_the_formula(verifier, kind, want, keys, noise):
  draft = propose(kind, GOLDEN_Q, noise, np.full(ROWS, K))
  verdict, _ = judge(verifier, keys, draft, GOLDEN_P, np.ones(ROWS))
  for depth in range(K):
    reached = np.sum(verdict.num_accepted >= depth)
    rate = np.sum(verdict.num_accepted > depth) / reached
    assert abs(rate - want) < 4 * np.sqrt(want * (1 - want) / reached)


def test_gumbel_emits_the_sample_that_its_noise_alone_decides(keys, noise):
  draft = propose('one-hot', DRAFTER, noise, NUM_VALID)
  verdict, log_p = judge(Gumbel(), keys, draft, TARGET, TEMPERATURE)
  sample = np.argmax(log_p + noise, axis=-1)
  want = accepted_by_hand(draft, sample)
  np.testing.assert_array_equal(verdict.num_accepted, want)
  np.testing.assert_array_equal(verdict.next_token, sample[np.arange(ROWS), want])


def test_greedy_follows_the_first_largest_logit(keys):
  rng = np.random.default_rng(0)
  logits = rng.integers(0, 3, (ROWS, K + 1, V)).astype(np.float32)  # many ties
  best = np.argmax(logits, axis=-1)
  nodes = np.where(
    rng.random((ROWS, K)) < 0.7, best[:, :-1], rng.integers(0, V, (ROWS, K))
  )
  tokens = jnp.asarray(nodes, jnp.int32)
  draft = Draft(tokens, jnp.asarray(NUM_VALID, jnp.int32), trees.chain(K))
  verdict = jax.device_get(verify(Greedy(), keys, draft, logits))
  want = accepted_by_hand(draft, best)
  np.testing.assert_array_equal(verdict.num_accepted, want)
  np.testing.assert_array_equal(verdict.next_token, best[np.arange(ROWS), want])


def accepted_by_hand(draft: Draft, choice: np.ndarray) -> np.ndarray:
  """Leading valid nodes that equal the target's choice."""
  agrees = np.asarray(draft.tokens) == choice[:, :-1]
  agrees &= np.arange(K) < np.asarray(draft.num_valid)[:, None]
  return np.where(agrees.all(axis=1), K, np.argmin(agrees, axis=1))


@pytest.mark.parametrize('verifier', [Rejection(), Block()])
def test_chain_rules_refuse_trees(verifier, keys):
  tree = trees.Tree(static=(-1, -1, 0))
  draft = Draft(jnp.zeros((ROWS, K), jnp.int32), jnp.zeros(ROWS, jnp.int32), tree)
  with pytest.raises(ValueError, match='chains'):
    verify(verifier, keys, draft, jnp.zeros((ROWS, K + 1, V)))
