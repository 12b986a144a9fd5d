"""The verifiers of the catalogue keep the contract, and it finds what breaks it."""

import dataclasses

import jax.numpy as jnp
import pytest

from specjax import keys as keys_lib
from specjax import sampling
from specjax.testing import bushes
from specjax.testing import verifier_contract as contract
from specjax.testing.subjects import Subject
from specjax.types import Draft, Verdict
from specjax.verifiers import (
  block,
  greedy,
  gumbel,
  rejection,
  residual,
  traversal,
  typical,
  walk,
)

VERIFIERS = {
  'greedy': greedy.Greedy,
  'gumbel': gumbel.Gumbel,
  'rejection': rejection.Rejection,
  'block': block.Block,
  'traversal': traversal.Traversal,
  'typical': typical.Typical,
}
TESTS = {name: test for name, test in vars(contract).items() if name[:5] == 'test_'}
ON_TREES = {name: TESTS.pop(name) for name in list(TESTS) if 'trees' in name}


@pytest.mark.parametrize('name', VERIFIERS)
@pytest.mark.parametrize('test', TESTS)
def test_contract(name, test):
  TESTS[test](Subject(name, VERIFIERS[name]))


@pytest.mark.parametrize('name', VERIFIERS)
@pytest.mark.parametrize('kind', bushes.KINDS)
@pytest.mark.parametrize('test', ON_TREES)
def test_contract_on_trees(name, kind, test):
  ON_TREES[test](Subject(name, VERIFIERS[name]), kind)


@dataclasses.dataclass(frozen=True)
class Broken(rejection.Rejection):
  """Rejection with a mistake."""

  mistake: str

  def __call__(self, keys, draft: Draft, log_p) -> Verdict:
    verdict = super().__call__(keys, draft, log_p)
    if self.mistake == 'accepts everything':
      return residual.corrected(keys, draft, log_p, draft.num_valid)
    if self.mistake == 'counts all nodes':
      all_count = jnp.full_like(draft.num_valid, draft.tokens.shape[1])
      return super().__call__(
        keys, dataclasses.replace(draft, num_valid=all_count), log_p
      )
    if self.mistake == 'corrects from p':
      noise = keys_lib.noise(keys_lib.row_key(keys, keys_lib.RESIDUAL), log_p.shape[-1])
      law = walk.at_row(log_p, verdict.num_accepted)
      return dataclasses.replace(
        verdict, next_token=sampling.first_largest(law + noise)
      )
    if self.mistake == 'takes the coins of row 0':
      coins = keys_lib.uniforms(keys, keys_lib.ACCEPT, draft.tokens.shape[1])[:1]
      passes = jnp.log(coins) < residual.log_ratio(log_p, draft)
      count = walk.count_accepted(draft, passes)
      return residual.corrected(keys, draft, log_p, count)
    return dataclasses.replace(verdict, num_accepted=verdict.num_accepted.astype(float))


@pytest.mark.parametrize(
  'mistake, test, message',
  [
    ('accepts everything', 'output_has_the_law_of_the_target', 'nodes drawn'),
    ('corrects from p', 'output_has_the_law_of_the_target', 'nodes drawn'),
    ('counts all nodes', 'verdicts_are_well_formed', 'num_accepted'),
    ('counts all nodes', 'nodes_that_do_not_count_are_not_looked_at', 'drawn'),
    ('takes the coins of row 0', 'a_row_is_judged_by_itself_alone', 'batch mates'),
    ('floats', 'verdicts_are_well_formed', 'float32'),
  ],
)
def test_a_mistake_is_found(mistake, test, message):
  broken = Subject(mistake, lambda: Broken(mistake))
  with pytest.raises(AssertionError, match=message):
    TESTS[f'test_{test}'](broken)


def test_a_tree_whose_uncounted_nodes_are_looked_at_is_found():
  broken = Subject('broken', lambda: Broken('counts all nodes'))
  for kind in bushes.KINDS:
    with pytest.raises(AssertionError, match=f'{kind} siblings'):
      ON_TREES['test_nodes_of_trees_that_do_not_count_are_not_looked_at'](broken, kind)


def test_a_lossy_verifier_is_not_asked_for_the_law():
  @dataclasses.dataclass(frozen=True)
  class Lossy(greedy.Greedy):
    lossless = False

  with pytest.raises(pytest.skip.Exception, match='lossless = False'):
    contract.test_output_has_the_law_of_the_target(Subject('lossy', Lossy))
