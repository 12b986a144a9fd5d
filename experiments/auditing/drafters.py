"""Every drafter's drafts on a small target, judged by one verifier.

Do tokens follow `log_q`, and does a node count whatever its own token is? Is it drawn
independently of the nodes before it? Does what one round emits follow the target's law,
and are nodes accepted as often as the formula says?
"""

import functools

import jax
import numpy as np

from experiments.auditing import evidence, given, requests
from experiments.auditing.evidence import Cell, Evidence
from experiments.auditing.requests import Promise, V
from specjax import decoding, trees
from specjax.testing import drafts, rounds
from specjax.testing.subjects import Subject
from specjax.types import Draft, Verdict

PART = 'drafters'
REQUESTS = tuple(request for request in requests.REQUESTS if request.stop < 0)
NEW = 32  # tokens wanted, so that the budget cuts no draft
TEXT = 4  # tokens of a row whose law is compared
BINS, PAIR_BINS = 20, 5

_draft = jax.jit(rounds.draft_of, static_argnums=(0, 1, 2))


def checks(drafter: Subject, judge: Subject, rows: int, seed: int) -> list[Cell]:
  """One round of about `rows` rows.

  Raises:
    ValueError: the drafter works with no small target or drafts nothing, or the
      verifier refuses its drafts.
  """
  setting, verifier = requests.setting(drafter), judge.make()
  asked = requests.for_verifier(REQUESTS, verifier)
  group = requests.groups(asked, rows)
  params, state = setting.begin(asked, group, NEW, seed * rows)
  static = setting.model.target, setting.drafter, verifier
  draft = jax.device_get(_draft(*static, params, state))
  if not np.any(draft.num_valid):
    raise ValueError(f'{drafter.name} drafts nothing behind {requests.LONG}')
  promise = Promise(asked, setting.table, group)
  law = given.target_law(draft, promise)
  keys = decoding.round_keys(setting.model.target, verifier, state)
  verdict = given.judge(verifier, keys, draft, law)
  length = min(TEXT, setting.drafter.num_draft + 1)
  texts = given.emitted(draft, verdict, promise, length, seed)
  found = {} if draft.log_q is None else _of_places(draft, promise)
  promised = dict(enumerate(promise.text_laws(length)))
  found['law'] = evidence.of_law(texts, promise.group, promised)
  if judge.name == 'rejection':
    found['accepted'] = _of_acceptance(draft, law, verdict)
  cell = functools.partial(Cell, PART, drafter.name, judge.name)
  return [cell(check, seen, not verifier.lossless) for check, seen in found.items()]


def _of_places(draft: Draft, promise: Promise) -> dict[str, Evidence]:
  """Where tokens fell in their laws: uniform, and independent of one another."""
  rng = np.random.default_rng(3)
  warm = np.array([request.temperature > 0 for request in promise.requests])
  place = drafts.places_in_law(draft, rng)
  place = np.where(warm[promise.group][:, None], place, np.nan)
  alone = place[~np.isnan(place)]
  uniform = lambda cells: np.full(cells, 1 / cells)
  one = {0: uniform(BINS)}
  found = {
    'follows log_q': evidence.of_law(_bin(alone, BINS), np.zeros(alone.shape), one)
  }
  kind, pairs = _pairs(draft, place, rng)
  if len(pairs):
    cells = _bin(pairs, PAIR_BINS) @ [PAIR_BINS, 1]
    both = {number: uniform(PAIR_BINS**2) for number in np.unique(kind)}
    found['independent'] = evidence.of_law(cells, kind, both)
  return found


def _bin(place: np.ndarray, bins: int) -> np.ndarray:
  return np.minimum((place * bins).astype(int), bins - 1)


def _pairs(draft: Draft, place: np.ndarray, rng) -> tuple[np.ndarray, np.ndarray]:
  """A node beside one before it, or its parent, for each row that has two nodes.

  One pair a row, since pairs that share a node are not independent of each other.

  Returns:
    int[P], 1 where it is the parent, and the places of both, float[P, 2].
  """
  rows = np.flatnonzero(~np.isnan(place[:, 1:2]))
  node = rng.integers(1, draft.num_valid[rows])
  parent = np.asarray(trees.parents(draft.tree, len(place)))[rows, node]
  kind = rows % 2 * (parent >= 0)
  other = np.where(kind, parent, rng.integers(0, node))
  return kind, np.stack([place[rows, other], place[rows, node]], axis=1)


def _of_acceptance(draft: Draft, law: np.ndarray, verdict: Verdict) -> Evidence:
  """Accepted nodes against sum_x min(p, q), for rejection.

  A node is looked at where its parent was accepted and no elder sibling was. Then p is
  what the elder siblings left, norm(max(0, p - q)) for each of them; a deterministic
  candidate x has p(x).
  """
  batch, nodes = draft.tokens.shape
  rows, parents = np.arange(batch), np.asarray(trees.parents(draft.tree, batch))
  reached, left = _reached(verdict, nodes), law.copy()
  settled = np.zeros_like(reached)  # rows of the tree of which a child was accepted
  off = variance = looked_at = 0.0
  for node in range(nodes):
    above = parents[:, node] + 1
    p, q = left[rows, above], _drafted_law(draft, node)
    chance = np.minimum(p, q).sum(axis=-1)
    looked = reached[rows, above] & ~settled[rows, above] & (node < draft.num_valid)
    kept = reached[:, node + 1] & looked
    off += kept.sum() - chance[looked].sum()
    variance += (chance * (1 - chance))[looked].sum()
    looked_at += looked.sum()
    settled[rows, above] |= kept
    rest = np.maximum(p - q, 0)
    total = rest.sum(axis=-1, keepdims=True)
    left[rows, above] = np.where(total > 0, rest / np.where(total > 0, total, 1), p)
  error = max(variance, 0) ** 0.5 / looked_at
  return evidence.of_mean(off / looked_at, error, int(looked_at))


def _reached(verdict: Verdict, nodes: int) -> np.ndarray:
  """The root and the accepted nodes, bool[R, N + 1]."""
  rows = np.arange(len(verdict.path))
  reached = np.zeros((len(rows), nodes + 1), bool)
  reached[:, 0] = True
  for depth in range(verdict.path.shape[1]):
    accepted = depth < verdict.num_accepted
    reached[rows, np.where(accepted, verdict.path[:, depth] + 1, 0)] = True
  return reached


def _drafted_law(draft: Draft, node: int) -> np.ndarray:
  """q of a node over the target's vocabulary, float64[R, V]; one-hot if not drawn."""
  if draft.log_q is None:
    return np.eye(V)[np.asarray(draft.tokens)[:, node]]
  q = np.zeros((len(draft.tokens), V))
  columns = np.arange(V) if draft.vocab is None else np.asarray(draft.vocab)
  q[:, columns] = np.exp(np.asarray(draft.log_q, np.float64)[:, node])
  return q
