"""What every verifier promises, as tests: `pytest --verifier=package.module` runs them.

On chains, and on trees unless it refuses them; `subject` is a
`specjax.testing.subjects.Subject`.
"""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from specjax import trees
from specjax.testing import bushes, chains, laws
from specjax.testing.chains import TARGET, K, V
from specjax.testing.subjects import Subject
from specjax.types import Draft

ROWS = 40_000
# Groups of rows: how many nodes count, and greedy or not.
NUM_VALID, WARM = np.arange(ROWS) % (K + 1), np.arange(ROWS) // (K + 1) % 2
ON_TREES = np.arange(ROWS) // (2 * K + 2) % (bushes.N + 1)


def test_equal_examples_are_one_static_argument(subject: Subject):
  """Hyper-parameters alone decide equality, so that no program is compiled twice."""
  first, second = subject.make(), subject.make()
  assert first == second, 'two equal verifiers differ: is it a frozen dataclass?'
  assert hash(first) == hash(second), 'two equal verifiers have different hashes'
  for name in ('lossless', 'shared_noise', 'greedy_only'):
    declared = getattr(first, name, None)
    assert isinstance(declared, bool), f'it declares {name} = {declared}: True or False'


def test_verdicts_are_well_formed(subject: Subject):
  """Shapes, types and ranges; a chain's accepted nodes are its first ones."""
  verifier = subject.make()
  for kind in chains.KINDS:
    verdict = _judge(verifier, *_case(kind, verifier.greedy_only))
    rows = dict(path=(ROWS, K), num_accepted=(ROWS,), next_token=(ROWS,))
    for name, shape in rows.items():
      got = getattr(verdict, name)
      assert (got.dtype, got.shape) == (np.int32, shape), (
        f'{name} is {got.dtype}{got.shape}, wanted int32{shape}'
      )
    few, many = verdict.num_accepted.min(), np.max(verdict.num_accepted - NUM_VALID)
    assert few >= 0 and many <= 0, 'num_accepted is not from 0 to num_valid'
    low, high = verdict.next_token.min(), verdict.next_token.max()
    assert 0 <= low and high < V, f'next_token from {low} to {high}, tokens: {V}'
    accepted = np.arange(K) < verdict.num_accepted[:, None]
    assert np.all((verdict.path == np.arange(K)) | ~accepted), (
      'path[b, d] must be node d where depth d of a chain was accepted'
    )


def test_nodes_that_do_not_count_are_not_looked_at(subject: Subject):
  """Beyond num_valid stands whatever the drafter left there."""
  verifier = subject.make()
  for kind in chains.KINDS:
    draft, log_p = _case(kind, verifier.greedy_only)
    _check_rubbish_is_ignored(verifier, draft, log_p, NUM_VALID, f'{kind} nodes')


@pytest.mark.parametrize('kind', bushes.KINDS)
def test_nodes_of_trees_that_do_not_count_are_not_looked_at(
  subject: Subject, kind: str
):
  """Neither as candidates nor as elder siblings, and wherever they hang."""
  verifier = subject.make()
  for grown in (False, True):
    draft = bushes.propose(kind, chains.DRAFTER, ON_TREES, grown=grown)
    log_p = chains.log_law(draft, TARGET, _temperature(verifier.greedy_only))
    draft, log_p = jax.device_get((draft, log_p))
    try:
      _check_rubbish_is_ignored(verifier, draft, log_p, ON_TREES, f'{kind} siblings')
    except ValueError as error:
      pytest.skip(f'it refuses trees: {error}')


def test_a_row_is_judged_by_itself_alone(subject: Subject):
  """Not by its slot or its batch mates."""
  verifier = subject.make()
  draft, log_p = _case('drawn', verifier.greedy_only)
  rows = np.arange(ROWS)
  order = np.where(rows % 2, rows[::-1], 1)  # every second row is now row 1
  here = _judge(verifier, draft, log_p)
  keys = chains.round_keys(ROWS)
  pick = lambda tree: jax.tree.map(lambda x: x[order], tree)
  there = jax.device_get(chains.verify(verifier, *pick((keys, draft, log_p))))
  for name in ('num_accepted', 'next_token'):
    same = np.array_equal(getattr(here, name)[order], getattr(there, name))
    assert same, f'{name} of a row changes with its slot and its batch mates'


def test_output_has_the_law_of_the_target(subject: Subject):
  """All texts of four tokens over three, counted, for each way of drafting.

  In groups by num_valid, from 0, of greedy rows and others.
  """
  verifier = subject.make()
  if not verifier.lossless:
    pytest.skip('it declares lossless = False')
  for kind in chains.KINDS:
    draft, log_p = _case(kind, verifier.greedy_only)
    _check_law(verifier, draft, log_p, f'nodes {kind}')


def test_rounds_without_nodes_have_the_law_of_the_target(subject: Subject):
  """Where no row drafted, the draft has no columns at all."""
  verifier = subject.make()
  if not verifier.lossless:
    pytest.skip('it declares lossless = False')
  for kind in ('drawn', 'one-hot'):
    draft, log_p = _case(kind, verifier.greedy_only)
    empty = Draft(
      tokens=draft.tokens[:, :0],
      num_valid=np.zeros_like(draft.num_valid),
      tree=trees.chain(0),
      log_q=None if draft.log_q is None else draft.log_q[:, :0],
    )
    _check_law(verifier, empty, log_p[:, :1], 'no nodes')


@pytest.mark.parametrize('kind', bushes.KINDS)
def test_output_on_trees_has_the_law_of_the_target(subject: Subject, kind: str):
  """Siblings drawn in each way, in groups by num_valid, of greedy rows and others."""
  verifier = subject.make()
  if not verifier.lossless:
    pytest.skip('it declares lossless = False')
  temperature = _temperature(verifier.greedy_only)
  draft = bushes.propose(kind, chains.DRAFTER, ON_TREES)
  try:
    verdict, _ = chains.judge(verifier, draft, TARGET, temperature)
  except ValueError as error:
    pytest.skip(f'it refuses trees: {error}')
  last = verdict.path[np.arange(ROWS), np.maximum(verdict.num_accepted, 1) - 1]
  assert np.all((verdict.num_accepted == 0) | (last < ON_TREES)), (
    'a node beyond num_valid was accepted'
  )
  tokens = chains.emitted(draft, verdict, TARGET, temperature)
  for warm in np.unique(temperature):
    law = laws.sequence_law(TARGET, [0], K + 1, temperature=warm)
    for num_valid in range(bushes.N + 1):
      rows = tokens[(temperature == warm) & (ON_TREES == num_valid)]
      p_value = laws.p_value(rows, law, V)
      assert p_value > 1e-4, (
        f'p = {p_value:.2g} that this is the law of the target: {kind} siblings, '
        f'{num_valid} nodes count, temperature {warm}'
      )


def _check_rubbish_is_ignored(verifier, draft, log_p, num_valid, what: str) -> None:
  """Other tokens, laws and parents beyond num_valid change no verdict."""
  beyond = np.arange(draft.tokens.shape[1]) >= num_valid[:, None]
  other = (draft.tokens + 1) % V if draft.vocab is None else 2 - draft.tokens
  changed = dataclasses.replace(draft, tokens=np.where(beyond, other, draft.tokens))
  if draft.log_q is not None:
    log_q = np.where(beyond[..., None], draft.log_q[..., ::-1], draft.log_q)
    changed = dataclasses.replace(changed, log_q=log_q)
  if draft.tree.grown is not None:
    to_root = np.where(beyond, -1, draft.tree.grown).astype(np.int32)
    tree = dataclasses.replace(draft.tree, grown=to_root)
    changed = dataclasses.replace(changed, tree=tree)
  behind = np.pad(beyond, ((0, 0), (1, 0)))[..., None]
  changed_p = np.where(behind, np.roll(log_p, 1, axis=-1), log_p)
  one, two = _judge(verifier, draft, log_p), _judge(verifier, changed, changed_p)
  for name in ('num_accepted', 'next_token'):
    same = np.array_equal(getattr(one, name), getattr(two, name))
    assert same, f'{name} changes with what stands beyond num_valid; {what}'


@functools.cache
def _case(kind: str, cold: bool):
  """A draft and log p float32[ROWS, K + 1, V], both on the host."""
  draft = chains.propose(kind, chains.DRAFTER, NUM_VALID)
  return jax.device_get((draft, chains.log_law(draft, TARGET, _temperature(cold))))


def _temperature(cold: bool) -> np.ndarray:
  return np.zeros_like(WARM) if cold else WARM


def _judge(verifier, draft: Draft, log_p: np.ndarray):
  keys = chains.round_keys(ROWS)
  return jax.device_get(chains.verify(verifier, keys, draft, log_p))


def _check_law(verifier, draft: Draft, log_p: np.ndarray, what: str) -> None:
  """By num_valid, and greedy or not."""
  verdict, warm = _judge(verifier, draft, log_p), _temperature(verifier.greedy_only)
  assert np.all(verdict.num_accepted <= draft.num_valid), 'more accepted than valid'
  tokens = chains.emitted(draft, verdict, TARGET, warm)
  for temperature in np.unique(warm):
    law = laws.sequence_law(TARGET, [0], K + 1, temperature=temperature)
    for num_valid in range(K + 1):
      rows = tokens[(warm == temperature) & (NUM_VALID == num_valid)]
      p_value = laws.p_value(rows, law, V)
      assert p_value > 1e-4, (
        f'p = {p_value:.2g} that this is the law of the target: {what}, {num_valid} of '
        f'them count, temperature {temperature}'
      )
