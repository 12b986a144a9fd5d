"""Sampled text of the whole decode: its law, its coupling, its independence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specjax
from specjax import api, decoding
from specjax.drafters.autoregressive import Autoregressive
from specjax.drafters.oracle import Oracle
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.testing import laws
from specjax.testing.oracle_text import oracle_text
from specjax.testing.table import table_model
from specjax.verifiers.block import Block
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection


class TestLaw:
  """Enumerated: all texts of four tokens over a vocabulary of three."""

  V, ROWS, NEW = 3, 20_000, 4  # rows a warping
  PROMPT = [2, 0, 1, 2, 2, 0, 1, 2]  # the start of a text that table 0 likes to write
  WARPINGS = [
    dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0),
    dict(temperature=1.7, top_k=2, top_p=1.0, min_p=0.0),
    dict(temperature=2.0, top_k=0, top_p=0.8, min_p=0.0),
    dict(temperature=1.5, top_k=0, top_p=1.0, min_p=0.2),
    dict(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0),
  ]

  def written(self, drafter, verifier) -> np.ndarray:
    """int[warpings, ROWS, NEW]: one batch, a seed a row."""
    model = table_model(self.V)
    batch = self.ROWS * len(self.WARPINGS)
    known = np.tile(self.PROMPT, (batch, 2))  # one text: a row's draft is no chance
    run = api.begin(
      model,
      [self.PROMPT] * batch,
      drafter,
      verifier,
      jnp.asarray(known, jnp.int32),
      max_new_tokens=self.NEW,
      stop_ids=(),
      seed=range(batch),
      max_len=len(self.PROMPT) + self.NEW,
      **{
        name: np.repeat([warping[name] for warping in self.WARPINGS], self.ROWS)
        for name in self.WARPINGS[0]
      },
    )
    static = run.target, run.drafter, run.verifier
    state = jax.device_get(decoding.decode(*static, run.params, run.state))
    accepted, drafted = state.stats.accepted.sum(), state.stats.drafted.sum()
    assert drafter.num_draft == 0 or 0.1 < accepted / drafted < 0.9
    return state.tokens[:, len(self.PROMPT) :].reshape(-1, self.ROWS, self.NEW)

  LOOKUP = PromptLookup(3, max_ngram=2, min_ngram=1)
  ORACLE = Oracle(3, V, rates=(0.9, 0.6, 0.5))

  @pytest.mark.parametrize(
    'drafter, verifier',
    [
      (Autoregressive(), Gumbel()),
      (LOOKUP, Rejection()),
      (LOOKUP, Gumbel()),
      (ORACLE, Rejection()),
      (ORACLE, Gumbel()),
      (ORACLE, Block()),
    ],
  )
  def test_is_the_targets(self, drafter, verifier):
    table = table_model(self.V).params
    for warping, rows in zip(self.WARPINGS, self.written(drafter, verifier)):
      law = laws.sequence_law(table, self.PROMPT, self.NEW, **warping)
      assert laws.p_value(rows, law, self.V) > 1e-3, warping


MODEL = table_model(11)
PROMPTS = [[1, 2, 3, 1, 2], [0], [4, 2, 1, 10, 3] * 30]
SETTINGS = [
  dict(temperature=1.3, top_p=0.95, seed=5, max_new_tokens=40),
  dict(temperature=0.0, top_p=1.0, seed=6, max_new_tokens=17),
  dict(temperature=0.8, top_p=0.7, seed=2**32 - 1, max_new_tokens=29),
]
DRAFTER = PromptLookup(4, max_ngram=3, min_ngram=1)


def decode(prompts, settings: list[dict], drafter, verifier, **more):
  """Token lists, from one dict of settings a row."""
  by_name = {name: [row[name] for row in settings] for name in settings[0]}
  more |= dict(drafter=drafter, verifier=verifier, stop_ids=())
  return specjax.decode(MODEL, prompts, **by_name, **more)


class TestCoupling:
  @pytest.mark.parametrize('name', ['prompt_lookup', 'oracle'])
  def test_gumbel_gives_the_text_of_plain_sampling_with_the_same_seed(self, name):
    base = decode(PROMPTS, SETTINGS, None, Gumbel())
    oracle = name == 'oracle'
    got = decode(
      PROMPTS,
      SETTINGS,
      Oracle(4, 11, rates=(0.8,) * 4) if oracle else DRAFTER,
      Gumbel(),
      drafter_params=oracle_text(PROMPTS, base) if oracle else None,
    )
    assert [done.tokens for done in got] == [done.tokens for done in base]
    assert all(0 < done.accepted < done.drafted for done in got)

  def test_another_seed_gives_another_text(self):
    settings = [SETTINGS[0] | dict(seed=seed) for seed in (0, 0, 1)]
    one, again, other = decode([[1]] * 3, settings, None, Gumbel())
    assert one.tokens == again.tokens != other.tokens


@pytest.mark.parametrize('verifier', [Rejection(), Gumbel()])
class TestARowDependsOnItselfAlone:
  def base(self, verifier):
    return self.tokens(PROMPTS, SETTINGS, verifier)

  def tokens(self, prompts, settings, verifier, **more):
    dones = decode(prompts, settings, DRAFTER, verifier, **more)
    assert any(done.accepted for done in dones)
    return [done.tokens for done in dones]

  def test_not_on_its_slot(self, verifier):
    order = [2, 0, 1]
    got = self.tokens(
      [PROMPTS[i] for i in order], [SETTINGS[i] for i in order], verifier
    )
    base = self.base(verifier)
    assert got == [base[i] for i in order]

  def test_not_on_its_batch_mates(self, verifier):
    others = SETTINGS[2] | dict(seed=9)
    got = self.tokens(
      [[2], PROMPTS[1], [3] * 9], [others, SETTINGS[1], others], verifier
    )
    assert got[1] == self.base(verifier)[1]

  def test_not_on_the_size_of_batch_and_buffer(self, verifier):
    got = self.tokens(PROMPTS[:1], SETTINGS[:1], verifier, max_len=700)
    assert got == self.base(verifier)[:1]
