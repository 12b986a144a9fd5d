"""Every verifier on given laws and trees: no target and no drafter.

Drafts are drawn on the host from known laws. What each row emits, continued by the
target's law to one length, is compared with the exact law; and accepted tokens a round
with the exact formula, where there is one.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from experiments.auditing import evidence, given
from experiments.auditing.evidence import Cell
from experiments.auditing.requests import Promise, Request, V, for_verifier
from specjax import acceptance, trees
from specjax.testing.subjects import Subject

PART = 'verifiers'
BATCH = 200_000  # rows at once
TARGET, DRAFTER = np.random.default_rng(0).normal(size=(2, V, V, V))
REQUESTS = Request((0,)), Request((0,), top_k=2), Request((0,), temperature=0.0)


def outputs(
  subjects: Sequence[Subject], shape: str, siblings: str, rows: int, seed: int
) -> list[Cell]:
  """The law of what each verifier emits from drafts of one kind."""
  name, length = f'{shape} {siblings}', given.text_length(shape)
  texts: dict[str, list[np.ndarray]] = {subject.name: [] for subject in subjects}
  refusals: dict[str, str] = {}
  for batch, batch_seed in _batches(rows, seed):
    group, last_two = _groups(batch), np.zeros((batch, 2), int)
    draft = given.propose(shape, siblings, _law(DRAFTER), last_two, batch_seed)
    keys = given.round_keys(batch, batch_seed)
    for subject in subjects:
      verifier = subject.make()
      promise = Promise(for_verifier(REQUESTS, verifier), TARGET, group)
      try:
        verdict = given.judge(verifier, keys, draft, given.target_law(draft, promise))
      except ValueError as error:
        refusals[subject.name] = str(error)
        continue
      text = given.emitted(draft, verdict, promise, length, batch_seed)
      texts[subject.name].append(text)
  found = []
  for subject in subjects:
    where = PART, name, subject.name, 'law'
    if subject.name in refusals:
      found.append(Cell(*where, None, problem=refusals[subject.name]))
    else:
      found.append(
        Cell(*where, *_compared(subject.make(), texts[subject.name], length))
      )
  return found


def _compared(verifier, texts: Sequence[np.ndarray], length: int):
  """The evidence, and whether it is about a lossy rule.

  Rows with all nodes valid, every second one, are counted apart from the others.
  """
  requests = for_verifier(REQUESTS, verifier)
  odd = np.concatenate([np.arange(len(text)) % 2 for text in texts])
  group = np.concatenate([_groups(len(text)) for text in texts])
  laws = [request.text_law(TARGET, length) for request in requests]
  promised = {2 * g + half: law for g, law in enumerate(laws) for half in (0, 1)}
  seen = evidence.of_law(np.concatenate(texts), 2 * group + odd, promised)
  return seen, not verifier.lossless


def accepted(
  subjects: Sequence[Subject], shape: str, siblings: str, rows: int, seed: int
) -> list[Cell]:
  """Accepted tokens a round against the formula, for verifiers that have one.

  p and q are the same everywhere, and all nodes are valid.
  """
  everywhere = lambda table: np.broadcast_to(table[0, 0], table.shape)
  p, q = _law(everywhere(TARGET)), _law(everywhere(DRAFTER))
  known = {
    subject.name: (subject.make(), want)
    for subject in subjects
    if (want := formula(subject.name, shape, siblings, p[0, 0], q[0, 0])) is not None
  }
  if not known:
    return []
  counts: dict[str, list[np.ndarray]] = {name: [] for name in known}
  for batch, batch_seed in _batches(rows, seed):
    promise = Promise((Request((0,)),), everywhere(TARGET), np.zeros(batch, int))
    draft = given.propose(shape, siblings, q, promise.last_two, batch_seed)
    law, keys = given.target_law(draft, promise), given.round_keys(batch, batch_seed)
    full = draft.num_valid == draft.tokens.shape[1]
    for name, (verifier, _) in known.items():
      verdict = given.judge(verifier, keys, draft, law)
      counts[name].append(np.asarray(verdict.num_accepted)[full])
  found = []
  for name, (_, want) in known.items():
    seen = np.concatenate(counts[name])
    error = seen.std() / len(seen) ** 0.5
    mean = evidence.of_mean(seen.mean() - want, error, len(seen))
    found.append(Cell(PART, f'{shape} {siblings}', name, 'accepted', mean))
  return found


def formula(name: str, shape: str, siblings: str, p, q) -> float | None:
  """Accepted tokens a round of a verifier of ours; None where no formula is known."""
  nodes = len(given.SHAPES.get(shape, ()))
  match name, shape, siblings:
    case 'rejection', 'chain', 'independent':
      return acceptance.chain(acceptance.rejection(p, q), nodes)
    case 'gumbel', 'chain', 'shared noise':
      return acceptance.chain(acceptance.gumbel(p, q), nodes)
    case 'block' | 'traversal', 'chain', 'independent':
      return acceptance.block(p, q, nodes)
    case _, 'chain' | 'grown', _:
      return None
    case 'rejection' | 'traversal', _, 'independent' | 'distinct' | 'likeliest':
      paths = trees.paths(trees.Tree(static=given.SHAPES[shape]))
      return float(acceptance.tree(p, q, paths, siblings, name))
  return None


def _batches(rows: int, seed: int) -> Iterator[tuple[int, int]]:
  """Rows of each batch, and a seed of its own."""
  calls = max(rows // BATCH, 1)
  for number in range(calls):
    yield min(rows, BATCH), seed * calls + number


def _groups(rows: int) -> np.ndarray:
  """Each row's request, int[R]: all shapes and numbers of nodes before the next."""
  return np.arange(rows) // given.PERIOD % len(REQUESTS)


def _law(table: np.ndarray) -> np.ndarray:
  return Request((0,)).law(table)
