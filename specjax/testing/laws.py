"""Exact laws in float64, by other means than the library's, and a test against them."""

import dataclasses

import numpy as np
from scipy import stats


def warped(logits, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0) -> np.ndarray:
  """Probabilities float64[V] of logits [V]: what `sampling.warp` promises, by sorting.

  Temperature 0 is one-hot; then top-k, top-p, min-p, each on what the one before left.
  Tokens tied with the last one kept are kept as well.
  """
  logits = np.asarray(logits, np.float64)
  if temperature == 0:
    return np.eye(len(logits))[np.argmax(logits)]
  logits = (logits - logits.max()) / temperature
  p = np.exp(logits) / np.exp(logits).sum()
  if 0 < top_k < len(p):
    p = _kept(p, np.sort(p)[-top_k])
  if top_p < 1:
    largest_first = np.sort(p)[::-1]
    enough = np.cumsum(largest_first) >= top_p
    p = _kept(p, largest_first[np.argmax(enough)] if enough.any() else 0.0)
  return _kept(p, min_p * p.max())


def _kept(p: np.ndarray, least: float) -> np.ndarray:
  p = np.where(p >= least, p, 0.0)
  return p / p.sum()


def sequence_law(table, prompt, length: int, **warping) -> np.ndarray:
  """The law of the next `length` tokens of a `TableTarget`, float64[V ** length].

  Index: the tokens read as a number in base V, the first one most significant.
  """
  laws = np.apply_along_axis(warped, -1, np.asarray(table), **warping)
  if laws.ndim == 2:
    laws = np.broadcast_to(laws, (len(laws), *laws.shape))
  size = laws.shape[-1]
  law = np.zeros((size, size))  # by the last two tokens
  law[([0, *prompt])[-2], prompt[-1]] = 1.0
  for _ in range(length):  # [..., a, b] -> [..., a, b, c]
    law = law[..., None] * laws
  return law.sum(axis=(0, 1)).ravel()


@dataclasses.dataclass(frozen=True)
class Fit:
  """Chi-square of draws against the law that was promised.

  pooled is the law's mass in the cell that takes all rare ones.
  """

  statistic: float
  df: int
  pooled: float

  @property
  def p_value(self) -> float:
    """How likely a statistic so large is; with df = 0 there is right and wrong only."""
    if self.df == 0:
      return float(np.isfinite(self.statistic))
    return float(stats.chi2.sf(self.statistic, self.df))


def chi_square(seen: np.ndarray, law: np.ndarray) -> Fit:
  """Counts int[C] of cells against their law float[C].

  A cell of law 0 that was seen gives infinity. Cells with fewer than 5 expected are
  pooled, together with the smallest of the others.
  """
  if np.any(seen[law == 0]):
    return Fit(np.inf, int(np.count_nonzero(law)) - 1, 0.0)
  expected = law * np.sum(seen)
  largest_first = np.argsort(-expected)
  num_groups = int(np.sum(expected >= 5)) or 1
  groups = np.arange(num_groups)  # the last one takes the rest
  pool = lambda x: np.add.reduceat(x[largest_first], groups)
  wanted, rest = pool(expected), law[largest_first[num_groups - 1 :]]
  statistic = np.sum((pool(seen) - wanted) ** 2 / np.where(wanted > 0, wanted, 1))
  pooled = float(rest.sum()) if np.count_nonzero(rest) > 1 else 0.0
  return Fit(float(statistic), num_groups - 1, pooled)


def p_value(sequences: np.ndarray, law: np.ndarray, vocab_size: int) -> float:
  """How likely is it that the rows of int[R, n] were drawn from this law.

  By `chi_square`; a row that the law rules out gives 0.
  """
  cells = sequences @ vocab_size ** np.arange(sequences.shape[1])[::-1]
  return chi_square(np.bincount(cells, minlength=len(law)), law).p_value
