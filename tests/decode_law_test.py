"""The law of sampled text, of the whole decode. Whose text it is: invariants_test."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import specjax
from specjax import api, decoding
from specjax.drafters.autoregressive import Autoregressive
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.oracle import Oracle
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.drafters.self_speculative import SelfSpeculative
from specjax.testing import laws
from specjax.testing.layered_table import layered_model
from specjax.testing.table import TableTarget, table_model
from specjax.verifiers.block import Block
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection

pytestmark = pytest.mark.usefixtures('compile_quickly')
RULES = [Rejection(), Block(), Gumbel()]


def draft_model(vocab_size: int, num_draft: int, seed: int):
  params = table_model(vocab_size, seed).params
  return DraftModel(TableTarget(vocab_size), 3, num_draft), params


SEVERAL = layered_model(3)  # the target that drafts with its own first layer
# One text for all rows: what a row's draft is does not depend on its seed.
KNOWN = lambda rows: jnp.asarray(np.tile(TestLaw.PROMPT, (rows, 2)), jnp.int32)
DRAFTERS = dict(  # and their own params
  lookup=(PromptLookup(3, max_ngram=2, min_ngram=1), None),
  oracle=(Oracle(3, 3, rates=(0.9, 0.6, 0.5)), KNOWN),
  smaller_vocabulary=draft_model(2, num_draft=1, seed=2),
  draft_model=draft_model(3, num_draft=4, seed=1),
  larger_vocabulary=draft_model(5, num_draft=8, seed=3),
  itself=(SelfSpeculative(SEVERAL.target, num_layers=1, num_draft=3), None),
)

NAMES = [name for name in DRAFTERS if name != 'larger_vocabulary']
NAMES += [pytest.param('larger_vocabulary', marks=pytest.mark.slow)]  # drafts of eight


class TestLaw:
  """Enumerated: all texts of five tokens over a vocabulary of three."""

  V, ROWS, NEW = 3, 5_000, 5  # rows a warping
  PROMPT = [2, 0, 1, 2, 2, 0, 1, 2]  # the start of a text that table 0 likes to write
  WARPINGS = [
    dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, logit_bias={}),
    dict(temperature=1.7, top_k=2, top_p=1.0, min_p=0.0, logit_bias={0: 0.5}),
    dict(temperature=2.0, top_k=0, top_p=0.8, min_p=0.0, logit_bias={}),
    dict(temperature=1.5, top_k=0, top_p=1.0, min_p=0.2, logit_bias={}),
    dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, logit_bias={1: 1, 2: -np.inf}),
    dict(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, logit_bias={}),
  ]

  BATCH = ROWS * len(WARPINGS)

  def run(self, model, drafter, own, verifier):
    """Tokens int[warpings, ROWS, NEW] of one batch, a seed a row; acceptance rate."""
    repeat = lambda name: [w[name] for w in self.WARPINGS for _ in range(self.ROWS)]
    run = api.begin(
      model,
      [self.PROMPT] * self.BATCH,
      drafter,
      verifier,
      own(self.BATCH) if callable(own) else own,
      max_new_tokens=self.NEW,
      stop_ids=(),
      seed=range(self.BATCH),
      max_len=len(self.PROMPT) + self.NEW,
      **{name: repeat(name) for name in self.WARPINGS[0]},
    )
    static = run.target, run.drafter, run.verifier
    state = jax.device_get(decoding.decode(*static, run.params, run.state))
    rate = state.stats.accepted.sum() / max(state.stats.drafted.sum(), 1)
    tokens = state.tokens[:, len(self.PROMPT) :]
    return tokens.reshape(-1, self.ROWS, self.NEW), rate

  def p_value(self, tokens, table) -> float:
    """Of all warpings together, by Fisher's method."""
    p_values = []
    for warping, rows in zip(self.WARPINGS, tokens):
      rules, bias = dict(warping), np.zeros(self.V)
      for token, added in rules.pop('logit_bias').items():
        bias[token] = added
      law = laws.sequence_law(np.asarray(table) + bias, self.PROMPT, self.NEW, **rules)
      p_values.append(max(laws.p_value(rows, law, self.V), 1e-300))
    return stats.combine_pvalues(p_values).pvalue

  @pytest.mark.parametrize('name', NAMES)
  def test_is_the_targets(self, name):
    model = SEVERAL if name == 'itself' else table_model(self.V)
    with ThreadPoolExecutor(2) as pool:  # compiles two at a time
      written = list(pool.map(partial(self.run, model, *DRAFTERS[name]), RULES))
    table = sum(model.params) if name == 'itself' else model.params
    for rule, (tokens, rate) in zip(RULES, written):
      assert 0.1 < rate < 0.9, rule
      # One false alarm in a thousand, all drafters and rules together.
      least = 1e-3 / (len(DRAFTERS) * len(RULES))
      assert self.p_value(tokens, table) > least, rule

  def test_is_the_targets_without_a_draft(self):
    model = table_model(self.V)
    tokens, _ = self.run(model, Autoregressive(), None, Gumbel())
    assert self.p_value(tokens, model.params) > 1e-3


def test_another_seed_gives_another_text():
  settings = dict(temperature=1.3, max_new_tokens=40, stop_ids=(), seed=[0, 0, 1])
  one, again, other = specjax.decode(table_model(11), [[1]] * 3, **settings)
  assert one.tokens == again.tokens != other.tokens
