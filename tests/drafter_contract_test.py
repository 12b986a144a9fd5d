"""The drafters of the catalogue keep the contract, and it finds what breaks it."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import trees
from specjax.drafters import (
  draft_tree,
  drawing,
  oracle,
  prompt_lookup,
  self_speculative,
)
from specjax.drafters.draft_model import DraftModel, pair
from specjax.drafters.dynamic_tree import DynamicTree
from specjax.drafters.growing import StaticTree
from specjax.drafters.lookup_tree import LookupTree
from specjax.drafters.reading import ReaderState
from specjax.testing import drafter_contract as contract
from specjax.testing import drafts
from specjax.testing.subjects import Subject
from specjax.testing.table import TableTarget, table_model
from specjax.testing.tiny import tiny_model
from specjax.types import Context, Draft, Tree, Window

TEXT = jnp.asarray(np.random.default_rng(0).integers(0, 3, (1, 400)), jnp.int32)
PATHS = (0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)


def smaller(model):
  """Another model over the target's vocabulary."""
  if isinstance(model.target, TableTarget):
    return table_model(model.target.vocab_size, seed=7)
  return tiny_model(seed=7)


def grown(model, shape):
  return draft_tree.pair(model, smaller(model), shape)


class OneText(oracle.Oracle):
  """The oracle with one text for all rows: they may stand anywhere, in any number."""

  def init(self, params, batch: int, max_len: int):
    text = jnp.broadcast_to(params[0], (batch, params[0].shape[1]))
    return super().init((text, params[1]), batch, max_len)


DRAFTERS = {
  'prompt_lookup': lambda model: (prompt_lookup.PromptLookup(3, 2, 1), None),
  'oracle': lambda model: (
    OneText(3, model.target.vocab_size, rates=(0.9, 0.5, 0.8)),
    TEXT,
  ),
  'draft_model': lambda model: pair(model, smaller(model), num_draft=3),
  'self_speculative': lambda model: self_speculative.load(model, num_layers=1),
  'lookup_tree': lambda model: (LookupTree(3, PATHS, 2, 1), None),
  'draft_tree': lambda model: grown(model, StaticTree(3, PATHS, 'distinct')),
  'dynamic_tree': lambda model: grown(model, DynamicTree(3, beam=2, num_nodes=5)),
}
TESTS = {name: test for name, test in vars(contract).items() if name[:5] == 'test_'}


# A grown tree shares all but its shape with the static one.
NAMES = [name for name in DRAFTERS if name != 'dynamic_tree']
NAMES += [pytest.param('dynamic_tree', marks=pytest.mark.slow)]


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.parametrize('test', TESTS)
def test_contract(name, test):
  TESTS[test](Subject(name, DRAFTERS[name]))


class NeverForgets(DraftModel):
  """Takes rejected tokens for read, which shows when nobody asks it for some rounds."""

  def update(self, params, state, window: Window):
    after = super().update(params, state, window)
    return ReaderState(after.cache, jnp.maximum(state.seen, after.seen))


class LooksAtRow0(prompt_lookup.PromptLookup):
  def propose(self, params, state, context: Context, keys):
    first = jnp.broadcast_to(context.tokens[:1], context.tokens.shape)
    return super().propose(
      params, state, dataclasses.replace(context, tokens=first), keys
    )


class WritesOverTheText(prompt_lookup.PromptLookup):
  def propose(self, params, state, context: Context, keys):
    draft, state = super().propose(params, state, context, keys)
    return dataclasses.replace(draft, cache=jnp.zeros_like(context.cache)), state


@dataclasses.dataclass(frozen=True)
class Unigram:
  """Draws from one law everywhere."""

  vocab_size: int
  mistake: str = ''
  num_draft = num_nodes = 3
  feature_layers = ()

  def init(self, params, batch: int, max_len: int):
    count = jnp.zeros(batch, jnp.int32)
    if self.mistake == 'one array twice':
      return count, count
    return count, jnp.full(batch, 0) if self.mistake == 'weak type' else count + 1

  def update(self, params, state, window: Window):
    count = state[0] + (0.5 if self.mistake == 'turns float' else 1)
    return count, state[1] + window.count

  def propose(self, params, state, context: Context, keys):
    batch = len(context.length)
    law = jnp.where(jnp.arange(self.vocab_size) < 3, jnp.arange(self.vocab_size), -9.0)
    logits = jnp.broadcast_to(law, (batch, self.vocab_size))
    depths = [0, 0, 0] if self.mistake == 'one key' else [0, 1, 2]
    drawn = [drawing.draw(keys, depth, logits, context.sampling) for depth in depths]
    tokens = jnp.stack([token for token, _ in drawn], axis=1)
    num_valid = jnp.full(batch, 0 if self.mistake == 'drafts nothing' else 3)
    draft = Draft(tokens, num_valid, trees.chain(3))
    if drawn[0][1] is None:
      return draft, state
    log_q = jnp.stack([log_q for _, log_q in drawn], axis=1)
    if self.mistake == 'another temperature':
      log_q = jnp.log(jnp.full_like(log_q, 1 / self.vocab_size))
    if self.mistake == 'drops the unlikely':
      likely = jnp.take_along_axis(log_q, tokens[..., None], axis=-1)[..., 0] > -1
      num_valid = jnp.sum(jnp.cumprod(likely, axis=1), axis=1, dtype=jnp.int32)
      draft = dataclasses.replace(draft, num_valid=num_valid)
    if self.mistake == 'not normalised':
      log_q += 0.1
    return dataclasses.replace(draft, log_q=log_q), state


@dataclasses.dataclass(frozen=True)
class Unigrams:
  """Two nodes of two children each, all drawn from one law."""

  vocab_size: int
  mistake: str
  num_draft, num_nodes = 2, 6
  feature_layers = ()

  def init(self, params, batch: int, max_len: int) -> None:
    """No state."""

  def update(self, params, state: None, window: Window) -> None:
    """Nothing to learn."""

  def propose(self, params, state: None, context: Context, keys):
    batch = len(context.length)
    law = jnp.where(jnp.arange(self.vocab_size) < 3, jnp.arange(self.vocab_size), -9.0)
    logits = jnp.broadcast_to(law, (batch, 2, self.vocab_size))
    rows = (1, 1) if self.mistake == 'cousins share noise' else (1, 2)
    drawn = [
      drawing.children(
        keys, rows, depth, logits[:, : len(rows)], context.sampling, counts, 'distinct'
      )
      for depth, rows, counts in ((0, (0,), (2,)), (1, rows, (2, 2)))
    ]
    tokens, log_q = (jnp.concatenate(x, axis=1) for x in zip(*drawn))
    if self.mistake == 'forgets elders':
      log_q = jnp.broadcast_to(log_q[:, :1], log_q.shape)
    return Draft(tokens, jnp.full(batch, 6), trees.from_widths((2, 2)), log_q), state


def lookup(kind):
  return lambda model: (kind(3, 2, 1), None)


def never_forgets(model):
  drafter, own = pair(model, smaller(model), num_draft=3)
  return NeverForgets(drafter.model, drafter.vocab_size, 3), own


def unigram(mistake: str):
  return lambda model: (Unigram(model.target.vocab_size, mistake), None)


def unigrams(mistake: str):
  return lambda model: (Unigrams(model.target.vocab_size, mistake), None)


@pytest.mark.parametrize(
  'make, test, message',
  [
    (never_forgets, 'a_draft_is_that_of_a_fresh_start', 'fresh start'),
    (lookup(LooksAtRow0), 'a_row_drafts_by_itself_alone', 'batch mates'),
    (lookup(LooksAtRow0), 'a_row_is_sampled_by_itself_alone', 'batch mates'),
    (lookup(WritesOverTheText), 'greedy_output_is_that_of_plain_decoding', 'row'),
    (unigram('turns float'), 'the_state_is_a_fixed_point_of_the_loop', 'float32'),
    (unigram('weak type'), 'the_state_is_a_fixed_point_of_the_loop', 'weakly'),
    (unigram('one array twice'), 'no_two_arrays_of_the_state_are_one', 'copy'),
    (unigram('not normalised'), 'drafts_are_well_formed', 'sums to 1.1'),
    (unigram('drafts nothing'), 'drafts_are_well_formed', 'never drafted'),
    (unigram('another temperature'), 'tokens_are_drawn_from_log_q', 'not follow'),
    (unigram('drops the unlikely'), 'tokens_are_drawn_from_log_q', 'not follow'),
    (unigram('one key'), 'tokens_are_drawn_from_log_q', 'independent'),
    (unigrams('forgets elders'), 'tokens_are_drawn_from_log_q', 'not follow'),
    (unigrams('cousins share noise'), 'tokens_are_drawn_from_log_q', 'two nodes'),
    (
      unigram('another temperature'),
      'sampled_output_has_the_law_of_the_target',
      'behind',
    ),
  ],
)
def test_a_mistake_is_found(make, test, message):
  with pytest.raises(AssertionError, match=message):
    TESTS[f'test_{test}'](Subject('broken', make))


def test_drafters_that_compare_by_identity_are_found():
  make = lambda model: (object(), None)
  with pytest.raises(AssertionError, match='frozen'):
    contract.test_equal_examples_are_one_static_argument(Subject('identity', make))


@pytest.mark.parametrize(
  'wrong, message',
  [
    (dict(tokens=np.array([[0, 3]])), 'from 0 to 3, the target knows 0 to 2'),
    (dict(num_valid=np.array([3])), 'from 3 to 3 of 2 nodes'),
    (dict(tree=Tree(grown=np.array([[-1, 1]]))), 'behind its child'),
    (dict(tree=Tree(grown=np.array([[-1, 0]]), depth=1)), 'says it is 1 deep is 2'),
    (dict(log_q=np.array([[[0.0, -np.inf], [0.0, -np.inf]]])), 'rules out'),
    (dict(vocab=np.array([0, 0])), 'twice'),
    (dict(vocab=np.array([0, 2])), 'outside its vocab'),
  ],
)
def test_a_wrong_number_in_a_draft_is_found(wrong, message):
  right = Draft(
    tokens=np.array([[0, 1]]),
    num_valid=np.array([2]),
    tree=trees.chain(2),
    log_q=np.log(np.full((1, 2, 2), 0.5)),
    vocab=np.array([1, 0]),
  )
  drafts.check_values(right, 3)
  with pytest.raises(AssertionError, match=message):
    drafts.check_values(dataclasses.replace(right, **wrong), 3)


def test_one_that_remembers_rounds_need_not_equal_a_fresh_start():
  class Remembers(Unigram):
    remembers_rounds = True

  make = lambda model: (Remembers(model.target.vocab_size), None)
  with pytest.raises(pytest.skip.Exception, match='remembers_rounds'):
    contract.test_a_draft_is_that_of_a_fresh_start(Subject('remembers', make))
