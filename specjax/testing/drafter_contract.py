"""What every drafter promises, as tests: `pytest --drafter=package.module` runs them.

The decode loop, the verifiers and the comparison rely on each promise and check none
while they run. `subject` is a `specjax.testing.subjects.Subject`.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import buffers, decoding
from specjax.testing import drafts, laws, outputs, rounds
from specjax.testing.subjects import Subject
from specjax.types import Params, Window
from specjax.verifiers.greedy import Greedy
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection

SEEDS = tuple(range(len(rounds.PROMPTS)))
ROWS = 8000  # of each enumerated law


def test_equal_examples_are_one_static_argument(subject: Subject):
  """Hyper-parameters alone decide equality, so that no program is compiled twice."""
  traced = []
  (first, own), (second, same) = (subject.make(rounds.tiny()) for _ in range(2))
  assert first == second, 'two equal drafters differ: is it a frozen dataclass?'
  assert hash(first) == hash(second), 'two equal drafters have different hashes'
  program = jax.jit(lambda drafter, params: traced.append(drafter), static_argnums=0)
  program(first, own)
  program(second, same)
  assert len(traced) == 1, 'params of two equal examples differ in structure or shape'


def test_the_state_is_a_fixed_point_of_the_loop(subject: Subject):
  """`init`, `update` and `propose` give one structure, with equal shapes and types.

  A while_loop carries it; and a weak type, as of jnp.full(batch, 0), that turns strong
  compiles the loop twice.
  """
  drafter, params = _made(subject)
  state = rounds.start(drafter, params)
  arrays, batch = params.for_drafter, len(SEEDS)
  init = jax.eval_shape(lambda: drafter.init(arrays, batch, state.tokens.shape[1]))
  target = rounds.tiny().target
  keys = decoding.round_keys(target, Rejection(), state)
  ask = lambda s: drafter.propose(arrays, s, decoding.context(state), keys)[1]
  after = {'propose': jax.eval_shape(ask, state.draft)}
  update = functools.partial(drafter.update, arrays)
  for width in (buffers.CHUNK, drafter.num_draft + 1, 1):
    window = jax.eval_shape(functools.partial(_window, drafter, params, batch, width))
    after[f'update of {width}'] = jax.eval_shape(update, state.draft, window)
  want = _described(init)
  for name, output in after.items():
    got = _described(output)
    differ = sorted(key for key in {*want, *got} if want.get(key) != got.get(key))
    assert not differ, 'the state changes: ' + '; '.join(
      f'{key} is {want.get(key)} in init, {got.get(key)} in {name}' for key in differ
    )


def test_no_two_arrays_of_the_state_are_one(subject: Subject):
  """The state is donated: what it shares, with itself or with params, would be lost."""
  drafter, params = _made(subject)
  state = drafter.init(params.for_drafter, len(SEEDS), 256)
  places: dict[int, str] = {}
  for path, leaf in jax.tree.leaves_with_path(dict(params=params, state=state)):
    name = jax.tree_util.keystr(path)
    assert isinstance(leaf, jax.Array), f'{name} is a {type(leaf).__name__}: use jnp'
    place = leaf.unsafe_buffer_pointer() if leaf.size else id(leaf)
    shared = places.get(place) if 'state' in name else None
    assert not shared, f'{name} and {shared} are one array: copy it'
    places[place] = name


def test_drafts_are_well_formed(subject: Subject):
  """Shapes, types and ranges of `specjax.types.Draft`; each law sums to one."""
  drafter, params = _made(subject)
  state, model = rounds.start(drafter, params), rounds.tiny()
  for verifier in (Rejection(), Greedy(), Gumbel()):
    program = functools.partial(rounds.draft_of, model.target, drafter, verifier)
    draft = jax.eval_shape(program, params, state)
    drafts.check_types(draft, drafter.num_draft, drafter.num_nodes, len(SEEDS))
  steps = rounds.play(subject)
  for step in steps:
    drafts.check_values(step.draft, model.target.vocab_size)
  assert any(np.any(step.draft.num_valid) for step in steps), (
    'it never drafted anything, so nothing was tested: let example() return one that '
    f'drafts in texts over {rounds.ALPHABET} tokens'
  )


def test_a_draft_is_that_of_a_fresh_start(subject: Subject):
  """Whatever was accepted, thrown away or cut off, only the text counts afterwards.

  So a rejected draft leaves nothing behind. A drafter that learns from its own drafts,
  and not from the text alone, says so: `remembers_rounds = True`.
  """
  if getattr(_made(subject)[0], 'remembers_rounds', False):
    pytest.skip('it declares remembers_rounds')
  for step in rounds.play(subject):
    for row, events in enumerate(step.before):
      wrong = drafts.difference(step.draft, step.fresh, row, row)
      assert not wrong, (
        f'row {row} at {step.length[row]} tokens: {wrong} on a fresh start with the '
        f'same text. Its rounds so far: {", ".join(events) or "none"}'
      )


def test_a_row_drafts_by_itself_alone(subject: Subject):
  """Not by its slot, its batch mates, or the sizes of batch and buffer."""
  drafter, params = _made(subject)
  prompts, warmth = rounds.PROMPTS, rounds.TEMPERATURES
  here = _first_draft(drafter, params, prompts, warmth, SEEDS, 256)
  there = _first_draft(  # row r, but row 0, in slot -r
    drafter,
    params,
    [[3] * 9, [2] * 140, *prompts[:0:-1]],
    [0.0, 0.5, *warmth[:0:-1]],
    [8, 9, *SEEDS[:0:-1]],
    384,
  )
  for row in SEEDS[1:]:
    wrong = drafts.difference(here, there, row, len(there.tokens) - row)
    assert not wrong, (
      f'row {row}: {wrong} in another slot, with other batch mates and a longer buffer'
    )


def test_tokens_are_drawn_from_log_q(subject: Subject):
  """Else the verifier corrects for a law that nobody drew from, and bends the output.

  Of nodes that count, too: dropping a token for what it is bends q. The place of each
  token in its law, given its elder siblings, must be uniform in [0, 1), whatever those
  of the other nodes were.
  """
  drafter, params = _made(subject)
  state = rounds.begin(drafter, params, temperature=[0.2, 0.5, 1.0, 1.0, 0.7, 0.3])
  ask = functools.partial(
    rounds.propose, rounds.tiny().target, drafter, Rejection(), params
  )
  places, kin, all_pairs, rng = [], [], [], np.random.default_rng(0)
  for call in range(200):
    seeds = np.array(SEEDS, np.uint32) + call * len(SEEDS)
    draft = jax.device_get(ask(dataclasses.replace(state, seed=jnp.asarray(seeds))))
    if draft.log_q is None:
      pytest.skip('log_q is None: it draws nothing')
    place = drafts.places_in_law(draft, rng)
    above, any_two = drafts.pairs(draft, place)
    places.append(place)
    kin.append(above)
    all_pairs.append(any_two)
  assert drafts.p_value_of_uniform(np.concatenate(places), 20) > 1e-4, (
    'tokens do not follow log_q: is it the law after temperature and filters, and does '
    'a node count whatever its own token is? See specjax.drafters.drawing'
  )
  for pairs, who in ((kin, 'a node and its parent'), (all_pairs, 'two nodes of a row')):
    assert drafts.p_value_of_independence(np.concatenate(pairs), 5) > 1e-4, (
      f"{who} are not drawn independently: key a node's noise by its parent's row of "
      'the tree'
    )


def test_greedy_output_is_that_of_plain_decoding(subject: Subject):
  """Token by token."""
  _same_texts(subject, Greedy())


def test_gumbel_output_is_that_of_plain_sampling(subject: Subject):
  """Token by token, with the same seeds."""
  _same_texts(subject, Gumbel())


def test_sampled_output_has_the_law_of_the_target(subject: Subject):
  """All texts of four tokens over three, counted: rejection corrects for q exactly."""
  model = outputs.table(outputs.SMALL)
  if reason := outputs.refusal(subject, model):
    pytest.skip(f'it does not work with a table as target: {reason}')
  rows = outputs.sampled(subject, model, ROWS)[:, 0]
  for (prompt, warping), part in zip(
    outputs.PARTS, rows.reshape(-1, ROWS, outputs.NEW)
  ):
    law = laws.sequence_law(model.params, prompt, outputs.NEW, **warping)
    p_value = laws.p_value(part, law, outputs.SMALL)
    assert p_value > 1e-4, f'p = {p_value:.2g} behind {prompt} with {warping}'


def test_a_row_is_sampled_by_itself_alone(subject: Subject):
  """With rejection, where the output follows the draft, other rows change nothing."""
  small = outputs.table(outputs.SMALL)
  refused = outputs.refusal(subject, small)
  model, rows = (rounds.tiny(), 4) if refused else (small, ROWS)
  here = outputs.sampled(subject, model, rows)
  there = outputs.sampled(subject, model, rows, moved=True)
  for row in range(0, len(here), 2):
    assert np.array_equal(here[row], there[row]), (
      f'row {row} emits {here[row].tolist()} (tokens, and depths at which they were '
      f'accepted), but {there[row].tolist()} in another slot with other batch mates'
    )


def _made(subject: Subject):
  """The drafter for the tiny model, and the arrays of both."""
  drafter, own = subject.make(rounds.tiny())
  return drafter, Params(rounds.tiny().params, own)


def _described(state) -> dict[str, str]:
  """Type and shape of each leaf, by its path."""
  weak = lambda x: ', weakly typed' if x.weak_type else ''
  leaves = jax.tree.leaves_with_path(state)
  return {
    f'state{jax.tree_util.keystr(path)}': f'{x.dtype}{list(x.shape)}{weak(x)}'
    for path, x in leaves
  } | {'its structure': str(jax.tree.structure(state))}


def _window(drafter, params: Params, batch: int, width: int) -> Window:
  """What `update` is given after `width` tokens were scored."""
  target, start = rounds.tiny().target, jnp.zeros(batch, jnp.int32)
  tokens = jnp.zeros((batch, width), jnp.int32)
  out = target(
    params.target,
    tokens,
    tokens,
    target.init_cache(batch, width),
    slots=start,
    ancestors=None,
    logits_at=None,
    features_at=drafter.feature_layers,
  )
  return Window(jnp.pad(tokens, ((0, 0), (0, 1))), start, start, out.features)


def _first_draft(drafter, params: Params, prompts, temperature, seeds, max_len: int):
  """The draft behind the prompts, on the host."""
  state = rounds.begin(
    drafter, params, prompts, temperature=temperature, seed=seeds, max_len=max_len
  )
  draft = rounds.propose(rounds.tiny().target, drafter, Rejection(), params, state)
  return jax.device_get(draft)


def _same_texts(subject: Subject, verifier) -> None:
  model = outputs.model_for(subject)
  drafter, own = subject.make(model)
  want = outputs.plain(model, verifier)
  got = outputs.texts(model, drafter, verifier, own)
  for row, (one, other) in enumerate(zip(got, want)):
    assert one == other, f'row {row}: {one} with drafts, {other} by plain decoding'
