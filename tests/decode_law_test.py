"""The law of sampled text, of the whole decode. Whose text it is: invariants_test."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
from specjax.types import Array
from specjax.verifiers.block import Block
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection

RULES = [Rejection(), Block(), Gumbel()]


def tables(vocab_size: int, seed: int) -> tuple[TableTarget, Array]:
  return TableTarget(vocab_size), table_model(vocab_size, seed).params


SEVERAL = layered_model(3)  # the target that drafts with its own first layer
SAME, SMALLER, LARGER = tables(3, 1), tables(2, 2), tables(5, 3)
LOOKUP, ORACLE = PromptLookup(3, 2, 1), Oracle(3, 3, rates=(0.9, 0.6, 0.5))
ITSELF = SelfSpeculative(SEVERAL.target, num_layers=1, num_draft=3)
LAWS = [
  *itertools.product(['none'], [Autoregressive()], [Gumbel()]),
  *itertools.product(['lookup'], [LOOKUP], RULES),
  *itertools.product(['oracle'], [ORACLE], RULES),
  *itertools.product(['smaller'], [DraftModel(SMALLER[0], 3, 1)], RULES),
  *itertools.product(['same size'], [DraftModel(SAME[0], 3, 4)], RULES),
  *itertools.product(['larger'], [DraftModel(LARGER[0], 3, 8)], RULES),
  *itertools.product(['itself'], [ITSELF], RULES),
]


def label(part) -> str:
  return part if isinstance(part, str) else type(part).__name__.lower()


class TestLaw:
  """Enumerated: all texts of five tokens over a vocabulary of three."""

  V, ROWS, NEW = 3, 8_000, 5  # rows a warping
  PROMPT = [2, 0, 1, 2, 2, 0, 1, 2]  # the start of a text that table 0 likes to write
  WARPINGS = [
    dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, logit_bias={}),
    dict(temperature=1.7, top_k=2, top_p=1.0, min_p=0.0, logit_bias={0: 0.5}),
    dict(temperature=2.0, top_k=0, top_p=0.8, min_p=0.0, logit_bias={}),
    dict(temperature=1.5, top_k=0, top_p=1.0, min_p=0.2, logit_bias={}),
    dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, logit_bias={1: 1, 2: -np.inf}),
    dict(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, logit_bias={}),
  ]

  def run(self, model, drafter, verifier, own):
    """Tokens int[warpings, ROWS, NEW] of one batch, a seed a row; acceptance rate."""
    batch = self.ROWS * len(self.WARPINGS)
    repeat = lambda name: [w[name] for w in self.WARPINGS for _ in range(self.ROWS)]
    run = api.begin(
      model,
      [self.PROMPT] * batch,
      drafter,
      verifier,
      own,
      max_new_tokens=self.NEW,
      stop_ids=(),
      seed=range(batch),
      max_len=len(self.PROMPT) + self.NEW,
      **{name: repeat(name) for name in self.WARPINGS[0]},
    )
    static = run.target, run.drafter, run.verifier
    state = jax.device_get(decoding.decode(*static, run.params, run.state))
    rate = state.stats.accepted.sum() / max(state.stats.drafted.sum(), 1)
    tokens = state.tokens[:, len(self.PROMPT) :]
    return tokens.reshape(-1, self.ROWS, self.NEW), rate

  def known(self) -> Array:
    """One text for all rows: what a row's draft is does not depend on its seed."""
    batch = self.ROWS * len(self.WARPINGS)
    return jnp.asarray(np.tile(self.PROMPT, (batch, 2)), jnp.int32)

  @pytest.mark.parametrize('name, drafter, verifier', LAWS, ids=label)
  def test_is_the_targets(self, name, drafter, verifier):
    model = SEVERAL if name == 'itself' else table_model(self.V)
    own = {'smaller': SMALLER[1], 'same size': SAME[1], 'larger': LARGER[1]}.get(name)
    own = self.known() if name == 'oracle' else own
    tokens, rate = self.run(model, drafter, verifier, own)
    assert name == 'none' or 0.1 < rate < 0.9
    table = sum(model.params) if name == 'itself' else model.params
    for warping, rows in zip(self.WARPINGS, tokens):
      rules = dict(warping)
      bias = np.zeros(self.V)
      for token, added in rules.pop('logit_bias').items():
        bias[token] = added
      law = laws.sequence_law(np.asarray(table) + bias, self.PROMPT, self.NEW, **rules)
      # Many tests: one in a thousand false alarms, all of them together.
      least = 1e-3 / (len(LAWS) * len(self.WARPINGS))
      assert laws.p_value(rows, law, self.V) > least, warping


def test_another_seed_gives_another_text():
  settings = dict(temperature=1.3, max_new_tokens=40, stop_ids=(), seed=[0, 0, 1])
  one, again, other = specjax.decode(table_model(11), [[1]] * 3, **settings)
  assert one.tokens == again.tokens != other.tokens
