"""The compiled loop: how often it compiles, what it keeps, what a round costs."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import specjax
from specjax import api, decoding
from specjax.drafters.oracle import Oracle
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.model import Model
from specjax.testing.oracle_text import oracle_text
from specjax.testing.table import table_model
from specjax.verifiers.greedy import Greedy
from specjax.verifiers.gumbel import Gumbel

MODEL = table_model(5, seed=1)
PROMPTS = [[1, 2, 3, 1, 2], [0], [4, 2, 1, 0, 3] * 30]


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
  decode(begin(drafter=PromptLookup(3, max_ngram=3, min_ngram=1)))
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


@dataclasses.dataclass(frozen=True)
class Counting:
  """A target that counts the rows it scores, in its cache: (inner cache, int32[])."""

  inner: Any

  @property
  def vocab_size(self) -> int:
    return self.inner.vocab_size

  @property
  def max_positions(self) -> int:
    return self.inner.max_positions

  def init_cache(self, batch: int, slots: int):
    return self.inner.init_cache(batch, slots), jnp.int32(0)

  def __call__(self, params, tokens, positions, cache, **where):
    out = self.inner(params, tokens, positions, cache[0], **where)
    return dataclasses.replace(out, cache=(out.cache, cache[1] + tokens.shape[1]))


FRESH, NEW = [[1], [2]], 9


def scored_rows(drafter, text=None) -> int:
  """Target rows that the decode loop computed for one row of the batch."""
  model = Model(Counting(MODEL.target), MODEL.params, MODEL.tokenizer, 'counting')
  settings = dict(max_new_tokens=NEW, stop_ids=())
  run = api.begin(model, FRESH, drafter, Greedy(), text, **settings)
  prefilled = int(run.state.cache[1])
  return int(decode(run).cache[1]) - prefilled


def test_a_round_without_a_draft_costs_one_token():
  base = specjax.decode(MODEL, FRESH, max_new_tokens=NEW, stop_ids=())
  text = oracle_text(FRESH, base)
  assert scored_rows(Oracle(4, 5, script=(-1,)), text) == NEW
  assert scored_rows(Oracle(4, 5, script=(0,)), text) == (NEW - 1) * 5 + 1
  assert scored_rows(Oracle(4, 5, script=(-1, 0, -1, -1)), text) == NEW + 2 * 4


def test_without_a_match_nothing_is_drafted():
  assert scored_rows(PromptLookup(4, max_ngram=8, min_ngram=8)) == NEW
