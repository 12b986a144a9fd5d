"""The mixture of experts against a loop over tokens and their chosen experts."""

import jax
import numpy as np
import pytest
from flax import nnx

from specjax.targets.config import Experts
from specjax.targets.moe import MoE


@pytest.mark.parametrize('normalized', [True, False])
@pytest.mark.parametrize('chosen', [1, 2, 5])
def test_only_the_chosen_experts_count_by_their_weight(chosen, normalized):
  moe = MoE(8, Experts(5, chosen, 6, normalized), jax.nn.silu, nnx.Rngs(0))
  x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype(np.float32) * 3
  got = jax.jit(lambda moe, x: moe(x))(moe, x)
  np.testing.assert_allclose(got, _token_by_token(moe, x), rtol=1e-5, atol=1e-6)


def _token_by_token(moe: MoE, x: np.ndarray) -> np.ndarray:
  router, gate, up, down = (
    np.asarray(w[...], np.float64) for w in (moe.router, moe.gate, moe.up, moe.down)
  )
  out = np.zeros(x.shape)
  for at in np.ndindex(x.shape[:2]):
    law = np.exp(x[at] @ router)
    law /= law.sum()
    best = np.argsort(-law)[: moe.experts.chosen]
    total = law[best].sum() if moe.experts.normalized else 1.0
    for expert in best:
      opened = x[at] @ gate[expert]
      hidden = opened / (1 + np.exp(-opened)) * (x[at] @ up[expert])
      out[at] += law[expert] / total * (hidden @ down[expert])
  return out
