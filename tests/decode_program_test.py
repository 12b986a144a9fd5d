"""The compiled loop: how often it compiles, and what becomes of its state."""

import jax
import numpy as np

from specjax import api, decoding
from specjax.drafters.autoregressive import Autoregressive
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.testing.table import table_model
from specjax.verifiers.gumbel import Gumbel

MODEL = table_model(11)
PROMPTS = [[1, 2, 3, 1, 2], [0], [4, 2, 1, 10, 3] * 30]


def begin(prompts=PROMPTS, drafter=None, **settings) -> api.Run:
  drafter = drafter or PromptLookup(4, max_ngram=3, min_ngram=1)
  settings = dict(max_new_tokens=40, stop_ids=()) | settings
  return api.begin(MODEL, prompts, drafter, Gumbel(), None, **settings)


def decode(run: api.Run):
  static = run.target, run.drafter, run.verifier
  return decoding.decode(*static, run.params, run.state)


def test_values_never_recompile():
  decode(begin())
  compiled = lambda: (decoding.prefill._cache_size(), decoding.decode._cache_size())
  before = compiled()
  decode(begin([[3], [1] * 200, [2, 4]]))
  decode(begin(max_new_tokens=[0, 1, 99], stop_ids=(3,)))
  decode(begin(temperature=[0.0, 0.7, 2], top_k=[0, 2, 9]))
  decode(begin(temperature=1, top_p=0.5, min_p=[0, 0.1, 0.5], seed=[2**32 - 1, 0, 5]))
  assert compiled() == before
  decode(begin(drafter=Autoregressive(), max_len=300))
  assert compiled() > before  # the count can move


def test_the_state_is_donated_and_none_of_its_leaves_is_another():
  run = begin()
  leaves = jax.tree.leaves(run.state)
  assert len({leaf.unsafe_buffer_pointer() for leaf in leaves}) == len(leaves)
  state = decode(run)
  assert all(leaf.is_deleted() for leaf in leaves)
  assert not any(leaf.is_deleted() for leaf in jax.tree.leaves((state, run.params)))


def test_decoding_moves_nothing_between_host_and_device():
  decode(begin())
  run = begin(temperature=0.7)
  with jax.transfer_guard('disallow'):
    state = jax.block_until_ready(decode(run))
  assert np.all(state.done)
