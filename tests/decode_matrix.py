"""Each drafter x verifier as two programs on one table target; all else is data.

Wide: 8 nodes, three rows, buffer 256; data cut a row's drafts to the first 1, 4 or 8.
Narrow: the first 1 or 4 nodes (of a drawn tree 2 or 4, of others all), one row, buffer
192. They take seconds to compile and milliseconds to run, so tests that use them ask
for `compile_quickly`.
"""

import dataclasses
import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import api, decoding
from specjax.drafters.autoregressive import Autoregressive
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.draft_tree import DraftTree
from specjax.drafters.dynamic_tree import DynamicTree
from specjax.drafters.growing import StaticTree
from specjax.drafters.lookup_tree import LookupTree
from specjax.drafters.oracle import Oracle
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.drafters.self_speculative import SelfSpeculative
from specjax.testing.layered_table import layered_model
from specjax.testing.oracle_text import oracle_text
from specjax.verifiers.block import Block
from specjax.verifiers.greedy import Greedy
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection
from specjax.verifiers.traversal import Traversal
from tests import decode_checks

V, NEW, LONGEST = 11, 40, 106
MODEL = layered_model(V, seed=11)
OTHER = jax.tree.map(  # a draft model that is often right
  lambda ours, noise: jnp.round((0.75 * ours + 0.4 * noise) * 64) / 64,
  MODEL.params,
  layered_model(V, seed=5).params,
)
CHAINS = 'prompt_lookup', 'oracle', 'draft_model', 'self_speculative'
TREES = 'lookup_tree', 'draft_tree', 'dynamic_tree'
VERIFIERS = dict(
  greedy=Greedy(),
  rejection=Rejection(),
  block=Block(),
  traversal=Traversal(),  # on a chain it is block
  gumbel=Gumbel(),
)
# The first 2 and 4 of them are trees, too.
PATHS = (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 1, 0), (0, 0, 0, 0)


def greedy_text(*start: int, length: int) -> tuple[int, ...]:
  """A text that the target goes on with, so that copying from it pays."""
  best, text = np.argmax(sum(MODEL.params), axis=-1), list(start)
  while len(text) < length:
    text.append(int(best[tuple(text[-2:])]))
  return tuple(text)


PROMPTS = (1, 2, 3, 1), (0,), greedy_text(4, 2, length=150)  # longer than a chunk


@dataclasses.dataclass(frozen=True)
class Row:
  """A request. cap: its drafts' length, where the program's K is larger."""

  prompt: tuple[int, ...]
  cap: int = 8
  temperature: float = 0.0
  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0
  logit_bias: tuple[tuple[int, float], ...] = ()
  seed: int = 0
  max_new_tokens: int = NEW
  stop_ids: tuple[int, ...] = ()
  stop_strings: tuple[str, ...] = ('zz',)  # which no token spells


WARPINGS = [
  dict(temperature=1.2, top_p=0.9, logit_bias=((3, 1.5), (7, -np.inf)), seed=2**32 - 1),
  dict(logit_bias=((2, -np.inf), (6, 0.75)), seed=3),
  dict(temperature=0.7, top_k=4, min_p=0.05, seed=4),
  dict(temperature=1.0, seed=5),
  dict(),
]


def mixtures(greedy_only: bool = False) -> list[tuple[Row, ...]]:
  """Batches in which each prompt meets each warping, and each of both each cap."""
  warpings = [w for w in WARPINGS if not greedy_only or 'temperature' not in w]
  return [
    tuple(
      Row(prompt, cap=(1, 4, 8)[(i + j) % 3], **warpings[(i + j // 3) % len(warpings)])
      for i, prompt in enumerate(PROMPTS)
    )
    for j in range(3 * len(warpings))
  ]


@dataclasses.dataclass(frozen=True)
class Capped:
  """A drafter whose drafts data cut short: its own params are (inner's, int32[B])."""

  inner: Any
  feature_layers = ()

  @property
  def num_draft(self) -> int:
    return self.inner.num_draft

  @property
  def num_nodes(self) -> int:
    return self.inner.num_nodes

  def init(self, params, batch: int, max_len: int):
    return self.inner.init((params[0][0], params[1]), batch, max_len)

  def update(self, params, state, window):
    return self.inner.update((params[0][0], params[1]), state, window)

  def propose(self, params, state, context, keys):
    (own, caps), target = params
    draft, state = self.inner.propose((own, target), state, context, keys)
    num_valid = jnp.minimum(draft.num_valid, caps)
    return dataclasses.replace(draft, num_valid=num_valid), state


@dataclasses.dataclass(frozen=True)
class Case:
  """One compiled program."""

  drafter: str
  rule: str
  wide: bool

  @property
  def num_nodes(self) -> int:
    if self.wide or self.drafter in ('lookup_tree', 'dynamic_tree'):
      return 8  # the first nodes of these are not what a smaller one has
    in_order = *CHAINS, *TREES
    even = (in_order.index(self.drafter) + list(VERIFIERS).index(self.rule)) % 2 == 0
    return 4 if even else 2 if self.drafter in TREES else 1

  @property
  def max_len(self) -> int:
    return 256 if self.wide else 192

  @property
  def verifier(self):
    return VERIFIERS[self.rule]

  def mixtures(self) -> list[tuple[Row, ...]]:
    return mixtures(self.verifier.greedy_only)

  def make_drafter(self):
    k = self.num_nodes
    paths = PATHS[:k]
    depth = max(map(len, paths))
    drawn = StaticTree(
      depth, paths, 'independent' if self.rule == 'traversal' else 'distinct'
    )
    inner = dict(
      prompt_lookup=lambda: PromptLookup(k, max_ngram=3, min_ngram=1),
      oracle=lambda: Oracle(k, V, rates=(0.8,) * k),
      draft_model=lambda: DraftModel(MODEL.target, V, k),
      self_speculative=lambda: SelfSpeculative(MODEL.target, 1, k),
      lookup_tree=lambda: LookupTree(depth, paths, max_ngram=3, min_ngram=1),
      draft_tree=lambda: DraftTree(MODEL.target, V, drawn),
      dynamic_tree=lambda: DraftTree(MODEL.target, V, DynamicTree(4, 2, k)),
    )
    return Capped(inner[self.drafter]())

  def __str__(self) -> str:
    return f'{self.drafter}-{self.rule}-{"wide" if self.wide else "narrow"}'


PAIRS = [(name, rule) for name in CHAINS for rule in VERIFIERS if rule != 'traversal']
PAIRS += [(name, rule) for name in TREES for rule in VERIFIERS if rule != 'block']
# Each drafter is there, and each verifier with two of them.
QUICK = dict(
  prompt_lookup=('greedy',),
  oracle=('block',),
  draft_model=('block', 'gumbel'),
  self_speculative=('rejection',),
  lookup_tree=('greedy',),
  draft_tree=('rejection', 'traversal'),
  dynamic_tree=('traversal', 'gumbel'),
)


def cases(*drafters: str, wide: tuple[bool, ...] = (True, False)):
  """A test of all pairs with these drafters; beyond `QUICK` they are slow."""
  chosen = [Case(*pair, size) for pair in PAIRS if pair[0] in drafters for size in wide]
  marks = lambda case: () if case.rule in QUICK[case.drafter] else pytest.mark.slow
  return pytest.mark.parametrize(
    'case', [pytest.param(case, id=str(case), marks=marks(case)) for case in chosen]
  )


every_case = cases(*CHAINS, *TREES)
wide_cases = cases(*CHAINS, *TREES, wide=(True,))


def begin(
  case: Case, rows: Sequence[Row], *, target=MODEL.params, draft=OTHER, known=None
) -> api.Run:
  """A prefilled run. known: the rows whose plain text an oracle is told."""
  own = None
  if case.drafter == 'oracle':
    told = plain(tuple(rows) if known is None else known)
    own = oracle_text([row.prompt for row in rows], told)
  if case.drafter in ('draft_model', 'draft_tree', 'dynamic_tree'):
    own = draft
  params = own, jnp.asarray([row.cap for row in rows], jnp.int32)
  return _begin(rows, case.make_drafter(), case.verifier, params, target, case.max_len)


def _begin(rows, drafter, verifier, params, target, max_len: int) -> api.Run:
  settings = {
    field.name: [getattr(row, field.name) for row in rows]
    for field in dataclasses.fields(Row)
    if field.name not in ('prompt', 'cap')
  }
  settings['logit_bias'] = [dict(bias) for bias in settings['logit_bias']]
  settings |= dict(log_p=True, max_len=max_len)
  prompts = [row.prompt for row in rows]
  model = dataclasses.replace(MODEL, params=target)
  return api.begin(model, prompts, drafter, verifier, params, **settings)


def finish(run: api.Run, rows: Sequence[Row]) -> list[api.Completion]:
  """Decodes, with no transfer between host and device, and checks every count."""
  static = run.target, run.drafter, run.verifier
  with jax.transfer_guard('disallow'):
    state = jax.block_until_ready(decoding.decode(*static, run.params, run.state))
  done = api.completions(MODEL, run, state)
  state = jax.device_get(state)
  beyond = np.arange(state.tokens.shape[1]) >= state.length[:, None]
  assert state.done.all() and not np.any(state.tokens[beyond])
  assert not np.any(state.log_p[beyond]) and not np.any(state.trace[beyond])
  chain = run.drafter.num_nodes == run.drafter.num_draft
  for i, row in enumerate(rows):
    decode_checks.check_counts(done[i], state.stats.offered[i], row.cap, chain)
    assert len(done[i].tokens) <= row.max_new_tokens
    want = decode_checks.scored(
      row.prompt, done[i].tokens, jax.device_get(run.params.target)
    )
    np.testing.assert_allclose(done[i].log_p, want, atol=1e-5)
  return done


def decode(case: Case, rows: Sequence[Row], **other) -> list[api.Completion]:
  """Completions; a narrow program takes the rows one after another."""
  compile_pair(case.drafter, case.rule)
  return _decode(case, rows, **other)


def _decode(case: Case, rows: Sequence[Row], **other) -> list[api.Completion]:
  if case.wide:
    return finish(begin(case, rows, **other), rows)
  known = other.pop('known', rows)
  parts = [((row,), (told,)) for row, told in zip(rows, known, strict=True)]
  return [finish(begin(case, row, known=told, **other), row)[0] for row, told in parts]


@functools.cache
def compile_pair(drafter: str, rule: str) -> None:
  """Compiles both programs, side by side."""
  cases = [Case(drafter, rule, wide) for wide in (True, False)]
  rows = cases[0].mixtures()[0]
  plain(rows)
  with ThreadPoolExecutor(2) as pool:
    list(pool.map(lambda case: _decode(case, rows), cases))


@functools.cache
def plain(rows: tuple[Row, ...]) -> list[api.Completion]:
  """What plain sampling with the same seeds writes: LONGEST tokens, no stops."""
  blank = dict(max_new_tokens=LONGEST, stop_ids=(), stop_strings=('zz',))
  batch = [dataclasses.replace(row, **blank) for row in (rows * 3)[:3]]
  run = _begin(batch, Autoregressive(), Gumbel(), None, MODEL.params, max_len=256)
  return finish(run, batch)[: len(rows)]
