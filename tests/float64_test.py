"""In float64 the whole loop runs as well, and text is what it is without drafts."""

import jax
import pytest

import specjax
from specjax.drafters import draft_model, self_speculative
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.testing.tiny import tiny_model
from specjax.verifiers.gumbel import Gumbel

pytestmark = pytest.mark.usefixtures('compile_quickly')

SETTINGS = dict(
  max_new_tokens=20, stop_ids=(), stop_strings=['zzz'], log_p=True, seed=[1, 2]
)
MIXED = dict(temperature=[0.0, 0.9], verifier=Gumbel())
PROMPTS = [[1, 2, 3, 1, 2], [7] * 140]


@pytest.fixture(scope='module', autouse=True)
def x64():
  with jax.enable_x64(True):
    yield


@pytest.fixture(scope='module')
def target(x64):
  return tiny_model()


@pytest.mark.parametrize('name', ['prompt_lookup', 'self_speculative', 'draft_model'])
def test_every_drafter(name, target):
  drafter, params = {
    'prompt_lookup': lambda: (PromptLookup(3), None),
    'self_speculative': lambda: self_speculative.load(target, num_layers=1),
    'draft_model': lambda: draft_model.pair(target, tiny_model(seed=2), 3),
  }[name]()
  base = specjax.decode(target, PROMPTS, **SETTINGS, **MIXED)
  got = specjax.decode(
    target, PROMPTS, drafter=drafter, drafter_params=params, **SETTINGS, **MIXED
  )
  assert target.params['embedding'].dtype == 'float64'
  assert [done.tokens for done in got] == [done.tokens for done in base]
