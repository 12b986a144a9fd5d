"""Block verification: its acceptance by exact enumeration. Its law: verifiers_test."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import acceptance, trees
from specjax.types import Draft
from specjax.verifiers import block, residual

THIRDS = (1 / 3, 2 / 3), (2 / 3, 1 / 3)
FIFTHS = (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)


def _every_draft(p, q, num_draft):
  """All drafts of context-free laws as one batch, log p, and each draft's chance."""
  tokens = np.array(list(itertools.product(range(len(q)), repeat=num_draft)))
  batch = len(tokens)
  draft = Draft(
    tokens=jnp.array(tokens, jnp.int32),
    num_valid=jnp.full(batch, num_draft, jnp.int32),
    tree=trees.chain(num_draft),
    log_q=jnp.log(jnp.tile(jnp.array(q), (batch, num_draft, 1))),
  )
  log_p = jnp.log(jnp.tile(jnp.array(p), (batch, num_draft + 1, 1)))
  return draft, log_p, np.prod(np.array(q)[tokens], axis=1)


def _block_accepts(draft, log_p, chance):
  """E[accepted]: the longest passing prefix wins, P(accepted >= i) summed."""
  keep = np.asarray(block.weigh(draft, log_p)[1], np.float64)
  at_least = 1 - np.cumprod(1 - keep[:, ::-1], axis=1)
  return np.sum(chance[:, None] * at_least)


def _rejection_accepts(draft, log_p, chance):
  passes = np.minimum(1, np.exp(residual.log_ratio(log_p, draft)))
  return np.sum(chance[:, None] * np.cumprod(passes, axis=1))


@pytest.mark.parametrize(
  'laws, num_draft, token_wise, in_block',
  [
    (THIRDS, 2, 10 / 9, 11 / 9),
    (THIRDS, 3, 38 / 27, 5 / 3),
    (THIRDS, 4, 130 / 81, 166 / 81),
    (FIFTHS, 2, 119 / 100, 5 / 4),
    (FIFTHS, 4, 1.7731, 2.0635),
  ],
)
def test_golden_acceptance(laws, num_draft, token_wise, in_block):
  every = _every_draft(*laws, num_draft)
  assert _rejection_accepts(*every) == pytest.approx(token_wise, abs=1e-6)
  assert _block_accepts(*every) == pytest.approx(in_block, abs=1e-6)


def test_never_below_rejection_on_random_laws():
  rng = np.random.default_rng(0)
  gains = []
  for _ in range(40):
    p, q = rng.dirichlet(np.full(3, 0.7), 2)
    every = _every_draft(tuple(p), tuple(q), 3)
    accepts = _block_accepts(*every)
    assert accepts == pytest.approx(acceptance.block(p, q, 3), abs=1e-5)
    gains.append(accepts - _rejection_accepts(*every))
  assert min(gains) > -1e-6 and max(gains) > 0.01


def test_a_draft_from_p_itself_is_always_kept():
  draft, log_p, _ = _every_draft(FIFTHS[0], FIFTHS[0], 3)
  weights, keep = block.weigh(draft, log_p)
  np.testing.assert_allclose(weights, 1, rtol=1e-6)
  np.testing.assert_allclose(keep, 1, rtol=1e-6)
