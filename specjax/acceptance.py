"""How much a rule accepts when the laws are known: exact numbers in float64.

p is the target's law and q the drafter's, both as they are sampled from, after bias,
temperature and filters, over the target's vocabulary (a token that the drafter cannot
draw has q = 0). A deterministic draft has one-hot q.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike


def rejection(p: ArrayLike, q: ArrayLike) -> float:
  """sum_x min(p, q): the chance that rejection sampling accepts (arXiv 2211.17192)."""
  p, q = _laws(p, q)
  return float(np.minimum(p, q).sum())


def gumbel(p: ArrayLike, q: ArrayLike, candidates: int = 1) -> float:
  """The chance that argmax(log p + g) is among the largest of log q + g.

  Of one candidate it is sum_x 1 / sum_y max(p_y / p_x, q_y / q_x), over the x that both
  can draw (arXiv 2408.07978). Of several, an elder y of x wins against it in q's race
  and loses in p's: p_y / p_x < e_y / e_x < q_y / q_x for exponential clocks e. All sets
  of elders are gone through: for small laws.

  Args:
    candidates: at most the number of tokens that q can draw.
  """
  p, q = _laws(p, q)
  total = 0.0
  for x in np.flatnonzero((p > 0) & (q > 0)):
    in_p, in_q = p / p[x], q / q[x]
    later, elder = np.maximum(in_p, in_q), np.flatnonzero(in_q > in_p)
    for count in range(candidates):
      for elders in map(list, itertools.combinations(elder.tolist(), count)):
        others = later.sum() - later[elders].sum()
        for late in itertools.product((False, True), repeat=count):
          bounds = np.where(late, in_q[elders], in_p[elders])
          total += (-1) ** sum(late) / (others + bounds.sum())
  return float(total)


def chain(acceptance: float, num_draft: int) -> float:
  """Accepted tokens a round of a rule that goes token by token, rates all equal.

  acceptance 0.7, num_draft 2 -> 0.7 + 0.49
  """
  return float(sum(acceptance**depth for depth in range(1, num_draft + 1)))


def block(p: ArrayLike, q: ArrayLike, num_draft: int) -> float:
  """Accepted tokens a round of block verification (arXiv 2403.10444).

  p and q are the same behind every token. All len(q) ** num_draft drafts are gone
  through: for small laws.
  """
  p, q = _laws(p, q)
  total = 0.0
  for draft in itertools.product(np.flatnonzero(q), repeat=num_draft):
    kept, weight, stop_before = [], 1.0, 1.0
    for depth, token in enumerate(draft, start=1):
      weight = min(1.0, weight * p[token] / q[token])
      left = np.maximum(weight * p - q, 0).sum()
      rest = left + 1 - weight
      kept.append(weight if depth == num_draft else left / rest if rest > 0 else 1.0)
    for depth, keep in zip(range(num_draft, 0, -1), reversed(kept)):
      total += np.prod(q[list(draft)]) * stop_before * keep * depth
      stop_before *= 1 - keep
  return float(total)


def tree(
  p: Sequence, q: Sequence, paths: Sequence[Sequence[int]], siblings: str, rule: str
):
  """Accepted tokens a round of a tree rule; exact in Fractions, if the laws hold them.

  All drafts are gone through: for small laws and trees.

  Args:
    p, q: laws over V tokens, or one for each last token, V x V; the text ends in 0.
    paths: each node's ranks among its siblings, parents and elders first.
    siblings: 'independent' draws (SpecInfer), 'distinct' ones (without replacement,
      Sequoia) or the 'likeliest' tokens of q (deterministic, EAGLE-2).
    rule: 'rejection' (root to leaves) or 'traversal' (leaves to root).
  """
  p, q = by_last_token(p), by_last_token(q)
  return sum(
    chance * sum(stays * len(path) for path, stays, _ in ends(p, draft, rule))
    for chance, draft in drafts(q, paths, siblings)
  )


def by_last_token(law: Sequence) -> Sequence:
  """A law for each last token, of one law or of such."""
  return law if isinstance(law[0], Sequence | np.ndarray) else [law] * len(law)


Drafted = dict[tuple[int, ...], tuple[int, Sequence | None]]


def drafts(q: Sequence, paths: Sequence, siblings: str) -> Iterator[tuple]:
  """Each draft and its chance: token, and law drawn from (None: certain), by path.

  The law of a node is the one given its elder siblings.
  """
  if not paths:
    yield 1, {}
    return
  *before, path = paths
  path = tuple(path)
  for chance, draft in drafts(q, before, siblings):
    law = list(q[draft[path[:-1]][0] if path[:-1] else 0])
    elders = [draft[*path[:-1], rank][0] for rank in range(path[-1])]
    if siblings == 'likeliest':
      token = sorted(range(len(law)), key=lambda x: -law[x])[path[-1]]
      yield chance, draft | {path: (token, None)}
      continue
    if siblings == 'distinct':
      law = _normal([0 if x in elders else share for x, share in enumerate(law)])
    for token, share in enumerate(law):
      if share > 0:
        yield chance * share, draft | {path: (token, law)}


def ends(p: Sequence, draft: Drafted, rule: str) -> list[tuple]:
  """Where the rule may end: accepted tokens, the chance, the law of the next token."""
  found, alive = [], 1

  def look(path, tokens, weight, reach):
    nonlocal alive
    law = list(p[tokens[-1] if tokens else 0])
    for rank in itertools.count():
      child = *path, rank
      if child not in draft:
        break
      token, q = draft[child]
      q = q or [int(x == token) for x in range(len(law))]
      kept = min(1, weight * law[token] / q[token])
      if rule == 'rejection':
        look(child, (*tokens, token), 1, reach * kept)
        reach *= 1 - kept
      else:
        look(child, (*tokens, token), kept, 1)
      left = [max(0, weight * mine - theirs) for mine, theirs in zip(law, q)]
      if weight < 1:
        weight = sum(left) / (sum(left) + 1 - weight)
      law = _normal(left)
    stays = reach if rule == 'rejection' else alive * weight
    alive -= stays
    found.append((tokens, stays, law))

  look((), (), 1, 1)
  return found


def _normal(law: Sequence) -> list:
  """Sums to one; nothing stays nothing."""
  total = sum(law)
  return [share / total for share in law] if total else list(law)


def _laws(p: ArrayLike, q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
  """Both as float64[V], summing to one."""
  p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
  if p.ndim != 1 or p.shape != q.shape:
    raise ValueError(f'p and q must be laws over one vocabulary: {p.shape}, {q.shape}')
  for name, law in (('p', p), ('q', q)):
    if np.any(law < 0) or abs(law.sum() - 1) > 1e-6:
      raise ValueError(f'{name} must be a law, it sums to {law.sum()}')
  return p / p.sum(), q / q.sum()
