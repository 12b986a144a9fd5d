"""How much a rule accepts when the laws are known: exact numbers in float64.

p is the target's law and q the drafter's, both as they are sampled from, after bias,
temperature and filters, over the target's vocabulary (a token that the drafter cannot
draw has q = 0). A deterministic draft has one-hot q.
"""

import itertools

import numpy as np
from numpy.typing import ArrayLike


def rejection(p: ArrayLike, q: ArrayLike) -> float:
  """sum_x min(p, q): the chance that rejection sampling accepts (arXiv 2211.17192)."""
  p, q = _laws(p, q)
  return float(np.minimum(p, q).sum())


def gumbel(p: ArrayLike, q: ArrayLike) -> float:
  """The chance that argmax(log p + g) is argmax(log q + g) (arXiv 2408.07978).

  sum_x 1 / sum_y max(p_y / p_x, q_y / q_x), over the x that both can draw.
  """
  p, q = _laws(p, q)
  both = (p > 0) & (q > 0)
  ratios = np.maximum(p / p[both, None], q / q[both, None])
  return float(np.sum(1 / ratios.sum(axis=1)))


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


def _laws(p: ArrayLike, q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
  """Both as float64[V], summing to one."""
  p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
  if p.ndim != 1 or p.shape != q.shape:
    raise ValueError(f'p and q must be laws over one vocabulary: {p.shape}, {q.shape}')
  for name, law in (('p', p), ('q', q)):
    if np.any(law < 0) or abs(law.sum() - 1) > 1e-6:
      raise ValueError(f'{name} must be a law, it sums to {law.sum()}')
  return p / p.sum(), q / q.sum()
