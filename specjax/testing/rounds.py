"""Rounds by script: what becomes of each draft is data, and one program plays them all.

A row's script for a round stands in its seed, which drafter and verifier both get with
their keys: how many nodes to accept, whether the draft is thrown away (num_valid 0) and
whether the drafter is not even asked. Cuts inside the window, ends and rests come from
the state's own stop_ids, limit and done.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from specjax import decoding, request, trees
from specjax import keys as keys_lib
from specjax.model import Model
from specjax.testing.subjects import Subject
from specjax.testing.tiny import tiny_model
from specjax.types import Draft, Params, Verdict
from specjax.verifiers.rejection import Rejection

tiny = functools.cache(tiny_model)

# Most of a test's time is compiling: on the CPU half of it is saved.
FAST = dict(xla_backend_optimization_level=0)
jit = functools.partial(
  jax.jit, compiler_options=FAST if jax.default_backend() == 'cpu' else None
)
one_round = jit(decoding.one_round, static_argnums=(0, 1, 2), donate_argnums=(4,))

PROMPTS = [[1, 2, 3, 1, 2], [4], [1, 2, 3, 4, 0] * 30, [7, 7], [1, 2, 1, 3] * 9, [5, 6]]
TEMPERATURES = [1.0, 0.7, 1.3, 1.0, 0.8, 1.0]
ALPHABET = 5  # of the tokens between drafts, so that texts repeat themselves
EVENTS = (
  'all accepted',
  'none accepted',
  'some accepted',
  'draft thrown away',
  'stopped inside the draft',
  'two tokens wanted',
  'at rest',
)
ROUNDS = 14
UNDRAFTED = {  # rounds in which the target scores no draft in any row
  3: 'drafter not asked',
  5: 'draft thrown away',
  8: 'drafter not asked',
  9: 'drafter not asked',
}
_SKIP, _SILENT, _ALL = 1 << 8, 1 << 9, 255


@dataclasses.dataclass(frozen=True)
class Scripted:
  """Accepts as many nodes as the seeds say, on the way to the last node that deep."""

  lossless = False
  shared_noise = False
  greedy_only = True  # so that the round compiles faster: p is not looked at

  def __call__(self, keys, draft: Draft, log_p) -> Verdict:
    """See `specjax.types.Verifier`."""
    ancestors = trees.ancestors(trees.parents(draft.tree, len(draft.tokens)))
    rows = jnp.arange(ancestors.shape[1])
    valid = rows <= draft.num_valid[:, None]
    depth = jnp.where(valid, trees.depths(ancestors), -1)
    wanted = jnp.minimum(_script(keys) & _ALL, jnp.max(depth, axis=1))
    row = jnp.max(jnp.where(depth == wanted[:, None], rows, 0), axis=1)
    path = trees.path_to(ancestors, row, trees.max_depth(draft.tree))
    pick = jax.vmap(lambda key: jax.random.randint(key, (), 0, ALPHABET))
    next_token = pick(keys_lib.row_key(keys, keys_lib.RESIDUAL))
    return Verdict(path, wanted.astype(jnp.int32), next_token)


@dataclasses.dataclass(frozen=True)
class Interrupted:
  """A drafter whose drafts are thrown away, or not asked for, where the seeds say so.

  This is what adaptive lengths, ensembles and budgets do to it: `update` is called
  after every round, `propose` not always, and what it proposed may not count.
  """

  drafter: Any

  @property
  def num_draft(self) -> int:
    """The drafter's own."""
    return self.drafter.num_draft

  @property
  def num_nodes(self) -> int:
    """The drafter's own."""
    return self.drafter.num_nodes

  @property
  def feature_layers(self) -> tuple[int, ...]:
    """The drafter's own."""
    return self.drafter.feature_layers

  def init(self, params, batch: int, max_len: int):
    """The drafter's own."""
    return self.drafter.init(params, batch, max_len)

  def update(self, params, state, window):
    """The drafter's own."""
    return self.drafter.update(params, state, window)

  def propose(self, params, state, context, keys):
    """The drafter's own, unless the script says otherwise."""
    ask = lambda state: self.drafter.propose(params, state, context, keys)
    shapes = jax.eval_shape(ask, state)[0]

    def leave(state):
      draft = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
      if draft.cache is not None:
        draft = dataclasses.replace(draft, cache=context.cache)
      return draft, state

    script = _script(keys)
    draft, state = jax.lax.cond(jnp.any(script & _SILENT > 0), leave, ask, state)
    num_valid = jnp.where(script & _SKIP > 0, 0, draft.num_valid)
    return dataclasses.replace(draft, num_valid=num_valid), state


def _script(keys: keys_lib.RoundKeys):
  return jax.random.key_data(keys.seed)[:, -1].astype(jnp.int32)


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
  """A moment of the played text: its draft, and that of a fresh start on it."""

  before: tuple[tuple[str, ...], ...]  # events of the rounds so far, a row each
  length: np.ndarray
  draft: Draft  # on the host
  fresh: Draft


def draft_of(target, drafter, verifier, params: Params, state) -> Draft:
  """What the drafter says in the state's next round; the state stays as it is."""
  keys = decoding.round_keys(target, verifier, state)
  context = decoding.context(state)
  draft, _ = drafter.propose(params.for_drafter, state.draft, context, keys)
  return dataclasses.replace(draft, cache=None)


propose = jit(draft_of, static_argnums=(0, 1, 2))


def start(drafter, params: Params, prompts=PROMPTS, **settings):
  """A state of the tiny model before its prefill, with room for the script."""
  static = tiny().target, drafter, Rejection()
  settings = dict(temperature=TEMPERATURES) | settings
  settings |= dict(max_new_tokens=ROUNDS * (drafter.num_draft + 1))
  return request.start(*static, params, prompts, **settings)


def begin(drafter, params: Params, prompts=PROMPTS, **settings):
  """The same behind its prefill."""
  state = start(drafter, params, prompts, **settings)
  return decoding.prefill(tiny().target, drafter, params, state)


@functools.cache
def play(subject: Subject) -> list[Step]:
  """Plays the script on the tiny model, with the real loop's rounds."""
  model = tiny()
  drafter, own = subject.make(model)
  params = Params(model.params, own)
  state = begin(drafter, params)
  steps, before = [], [()] * len(PROMPTS)
  rng = np.random.default_rng(0)
  for number in range(ROUNDS):
    events = rng.choice(EVENTS, len(PROMPTS))
    if number in UNDRAFTED:
      events[:] = UNDRAFTED[number]
    state = _scripted(state, events, rng.integers(1, max(drafter.num_draft, 2)))
    ask = functools.partial(propose, model.target, drafter, Rejection(), params)
    fresh = ask(_fresh(model, drafter, params, state))
    step = tuple(before), state.length, ask(state), fresh
    steps.append(Step(*jax.device_get(step)))
    state = _with_stops(state, events, ask)
    static = model.target, Interrupted(drafter), Scripted()
    state = one_round(*static, params, state)
    before = [(*row, str(event)) for row, event in zip(before, events)]
  return steps


def _scripted(state, events: np.ndarray, some: int):
  """The state with what happens to each row in its next round."""
  accepted = {'none accepted': 0, 'some accepted': some}
  codes = np.array([accepted.get(event, _ALL) for event in events])
  codes += _SKIP * (events == 'draft thrown away')
  codes += _SILENT * (events == 'drafter not asked')
  length, buffer = np.asarray(state.length), state.tokens.shape[1]
  limit = np.where(events == 'two tokens wanted', length + 2, buffer)
  return dataclasses.replace(
    state,
    seed=jnp.asarray(codes + 1024 * np.arange(len(events)), jnp.uint32),
    limit=jnp.asarray(limit, jnp.int32),
    done=jnp.asarray(events == 'at rest'),
    stop_ids=jnp.full(state.stop_ids.shape, -1, jnp.int32),
  )


def _with_stops(state, events: np.ndarray, ask):
  """Stops a row in the middle of its draft, which is known beforehand: it is greedy."""
  cold = jnp.zeros_like(state.sampling.temperature)
  sampling = dataclasses.replace(state.sampling, temperature=cold)
  draft = ask(dataclasses.replace(state, sampling=sampling))
  middle = (draft.tokens.shape[1] - 1) // 2
  stops = np.array(state.stop_ids)
  stops[:, 0] = np.where(
    events == 'stopped inside the draft', np.asarray(draft.tokens)[:, middle], -1
  )
  return dataclasses.replace(state, stop_ids=jnp.asarray(stops))


def _fresh(model: Model, drafter, params: Params, state):
  """A state that knows the same text from its prefill alone."""
  copy = lambda tree: jax.tree.map(lambda x: jnp.array(x, copy=True), tree)
  names = 'tokens', 'length', 'limit', 'stop_ids', 'seed', 'sampling'
  known = {name: copy(getattr(state, name)) for name in names}
  fresh = decoding.init_state(model.target, drafter, params, **known)
  return decoding.prefill(model.target, drafter, params, fresh)
