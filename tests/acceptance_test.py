"""Exact acceptance: golden values, other derivations, and what verifiers measure."""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from specjax import acceptance, trees
from specjax import keys as keys_lib
from specjax.types import Draft
from specjax.verifiers.block import Block
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection

FIFTHS = (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)
THIRDS = (1 / 3, 2 / 3), (2 / 3, 1 / 3)
RNG = np.random.default_rng(0)
# Random laws; the drafter's lacks a token in the third pair, is one-hot in the last.
RANDOM = [RNG.dirichlet(np.full(3, 0.8), 2) for _ in range(3)]
RANDOM[2] = RANDOM[2][0], np.array([0.35, 0.0, 0.65])
RANDOM.append((RANDOM[0][1], np.array([0.0, 1.0, 0.0])))


def exact_block(p, q, num_draft: int) -> Fraction:
  """E[accepted] in rationals: P(accepted >= i) summed over i and all drafts."""
  p, q = [[Fraction(x).limit_denominator(1000) for x in law] for law in (p, q)]
  total = Fraction(0)
  for draft in itertools.product(range(len(q)), repeat=num_draft):
    chance, weight, keeps = Fraction(1), Fraction(1), []
    for x in draft:
      chance, weight = chance * q[x], min(Fraction(1), weight * p[x] / q[x])
      left = sum(max(weight * px - qx, Fraction(0)) for px, qx in zip(p, q))
      keeps.append(left / (left + 1 - weight) if left + 1 - weight else Fraction(1))
    keeps[-1] = weight
    none = Fraction(1)
    for keep in reversed(keeps):
      none *= 1 - keep
      total += chance * (1 - none)
  return total


def gumbel_by_first_arrival(p, q) -> float:
  """P(both pick x) as an integral: x's clocks ring first in both races.

  With E_x exponential, argmax(log p + g) = argmin(E / p). Given E_x = e, every other y
  needs E_y > e * max(p_y / p_x, q_y / q_x).
  """
  total = 0.0
  for x in range(len(p)):
    if p[x] > 0 and q[x] > 0:
      others = [max(p[y] / p[x], q[y] / q[x]) for y in range(len(p)) if y != x]
      total += integrate.quad(lambda e, c: np.exp(-c * e), 0, np.inf, 1 + sum(others))[
        0
      ]
  return total


@pytest.mark.parametrize(
  'rule, laws, want',
  [
    (acceptance.rejection, FIFTHS, 7 / 10),
    (acceptance.rejection, THIRDS, 2 / 3),
    (acceptance.rejection, (FIFTHS[0], (0, 0, 1)), 0.2),
    (acceptance.gumbel, FIFTHS, 41 / 65),
    (acceptance.gumbel, THIRDS, 2 / 3),
    (acceptance.gumbel, (FIFTHS[0], (0, 1, 0)), 0.3),
    (acceptance.gumbel, (FIFTHS[0], FIFTHS[0]), 1.0),
    (acceptance.gumbel, (*FIFTHS, 2), 10567 / 11890),
    (acceptance.gumbel, (*FIFTHS, 3), 1.0),
  ],
)
def test_golden_rates(rule, laws, want):
  assert rule(*laws) == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize(
  'laws, num_draft, token_wise, in_block',
  [
    (FIFTHS, 2, Fraction(119, 100), Fraction(5, 4)),
    (FIFTHS, 4, Fraction(17731, 10000), Fraction(20635, 10000)),
    (THIRDS, 2, Fraction(10, 9), Fraction(11, 9)),
    (THIRDS, 3, Fraction(38, 27), Fraction(5, 3)),
    (THIRDS, 4, Fraction(130, 81), Fraction(166, 81)),
  ],
)
def test_golden_accepted_tokens(laws, num_draft, token_wise, in_block):
  assert exact_block(*laws, num_draft) == in_block
  got = acceptance.block(*laws, num_draft)
  assert got == pytest.approx(float(in_block), abs=1e-6)
  rate = acceptance.rejection(*laws)
  got = acceptance.chain(rate, num_draft)
  assert got == pytest.approx(float(token_wise), abs=1e-6)


def test_gumbel_is_a_race_of_exponential_clocks():
  for p, q in (*RANDOM, FIFTHS):
    gap = acceptance.gumbel(p, q) - gumbel_by_first_arrival(p, q)
    assert abs(gap) < 1e-6


def test_gumbel_with_candidates_is_a_race_of_exponential_clocks():
  rng = np.random.default_rng(1)
  for _ in range(5):
    p, q = rng.dirichlet(np.full(5, 0.8), 2)
    clocks = rng.exponential(size=(100_000, 5))
    best, order = np.argmin(clocks / p, axis=1), np.argsort(clocks / q, axis=1)
    for candidates in range(1, 6):
      seen = np.mean(np.any(order[:, :candidates] == best[:, None], axis=1))
      want = acceptance.gumbel(p, q, candidates)
      assert abs(seen - want) <= 4 * np.sqrt(want * (1 - want + 1e-12) / len(clocks))


def test_known_order_of_the_rules():
  """(1 - TV) / (1 + TV) <= gumbel <= rejection = 1 - TV; block >= token by token."""
  for _ in range(200):
    p, q = RNG.dirichlet(np.full(4, 0.5), 2)
    same = acceptance.rejection(p, q)
    assert same / (2 - same) - 1e-12 <= acceptance.gumbel(p, q) <= same + 1e-12
    assert acceptance.block(p, q, 1) == pytest.approx(same)
    assert acceptance.block(p, q, 3) >= acceptance.chain(same, 3) - 1e-12


@jax.jit
def proposed(seeds, log_q):
  """A drafted token a row, from noise of its own and from the target's."""
  keys = keys_lib.row_keys(seeds, jnp.full(seeds.shape, 7), log_q.size)
  own = keys_lib.noise(keys_lib.node_key(keys, 0), log_q.size)
  shared = keys_lib.gumbel(keys, jnp.full((len(seeds), 1), 7))[:, 0]
  return jnp.argmax(log_q + own, axis=-1), jnp.argmax(log_q + shared, axis=-1)


@jax.jit
def accepted(seeds, log_p, log_q):
  """How many rows each rule accepts: rejection, block, gumbel."""
  rows = len(seeds)
  keys = keys_lib.row_keys(seeds, jnp.full(rows, 7), log_q.size)
  own, shared = proposed(seeds, log_q)
  law = lambda log, n: jnp.broadcast_to(log, (rows, n, log.size))
  count = lambda rule, tokens, log_q: jnp.sum(
    rule(
      keys,
      Draft(tokens[:, None], jnp.ones(rows, jnp.int32), trees.chain(1), log_q),
      law(log_p, 2),
    ).num_accepted
  )
  return (
    count(Rejection(), own, law(log_q, 1)),
    count(Block(), own, law(log_q, 1)),
    count(Gumbel(), shared, None),
  )


@pytest.mark.parametrize('laws', [FIFTHS, *RANDOM], ids='abcde')
def test_verifiers_accept_at_these_rates(laws):
  rows = 1_000_000
  with np.errstate(divide='ignore'):
    log_p, log_q = np.log(np.array(laws, np.float32))
  seeds = jnp.arange(rows, dtype=jnp.uint32)
  counts = accepted(seeds, jnp.asarray(log_p), jnp.asarray(log_q))
  wanted = [acceptance.rejection(*laws)] * 2 + [acceptance.gumbel(*laws)]
  for count, want in zip(counts, wanted):
    # 15 tests: 4.5 sigma leaves one in ten thousand to chance.
    assert abs(count / rows - want) < 4.5 * np.sqrt(want * (1 - want) / rows)


@pytest.mark.parametrize(
  'p, q, message',
  [
    ([0.5, 0.5], [1.0], 'one vocabulary'),
    ([0.5, 0.6], [1.0, 0.0], 'p must be a law, it sums to 1.1'),
    ([0.5, 0.5], [1.5, -0.5], 'q must be a law'),
  ],
)
def test_other_input_is_an_error(p, q, message):
  with pytest.raises(ValueError, match=message):
    acceptance.gumbel(p, q)
