"""From draws to p-values, distances, and the distance that would have been noticed.

Every check ends in a chi-square statistic. If what is true is a distance d away from
what was promised, its noncentrality is at least (d / unit)^2:

  law     sum of (seen - expected)^2 / expected over groups of rows and their texts; d
          is the total variation, in the mean over rows. A group of n rows has
          n sum_x (p' - p)^2 / p >= n (sum_x |p' - p|)^2 = 4 n d^2 (Cauchy-Schwarz), and
          so have all of them together (Jensen): unit = 1 / (2 sqrt(rows)).
  mean    the square of a mean's z; unit is its standard error, df = 1.
  exact   rows with one right value; d is the share of wrong ones, df = 0.

`detectable` is the smallest d that is noticed with probability POWER in the strictest
step of Holm's correction, at level FAMILY / (number of checks):

  law, mean   unit sqrt(l) + pooled, where P(ncx2(df, l) > chi2.isf(level, df)) = POWER
  exact       1 - (1 - POWER)^(1 / rows): one wrong row is enough

A law's figure holds in the worst direction; in most others less is noticed. `pooled` is
the mass of texts too rare to count one by one, inside which no difference is seen. The
noncentral chi-square is the large-sample approximation.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import optimize, stats

from specjax import intervals
from specjax.testing import laws

FAMILY = 1e-3  # the chance of any false alarm in a whole audit
POWER = 0.9


@dataclasses.dataclass(frozen=True)
class Evidence:
  """What the draws say about one promise."""

  rows: int
  distance: float  # observed; of a law it is above 0 by chance alone
  fit: laws.Fit
  unit: float = 0.0

  def detectable(self, level: float) -> float:
    """The smallest distance that is noticed; see the module."""
    if self.fit.df > 0:
      noticed = self.unit * math.sqrt(noncentrality(self.fit.df, level))
      return min(1.0, noticed + self.fit.pooled)
    if self.fit.pooled > 0:  # too few rows to count anything apart
      return 1.0
    return 1 - (1 - POWER) ** (1 / self.rows)


@functools.cache
def noncentrality(df: int, level: float) -> float:
  """What a chi-square test of this level finds with probability POWER."""
  critical = stats.chi2.isf(level, df)
  missed = lambda x: stats.ncx2.cdf(critical, df, x) - (1 - POWER)
  return float(optimize.brentq(missed, 1e-9, 2 * critical + 50))


def of_law(
  cells: np.ndarray, group: np.ndarray, promised: Mapping[int, np.ndarray]
) -> Evidence:
  """Draws int[R] of rows in groups int[R], each with a law float[C] of its own.

  Rows of groups for which no law is given are left out.
  """
  counts = {
    g: np.bincount(cells[group == g], minlength=len(promised[g])) for g in promised
  }
  rows = int(sum(seen.sum() for seen in counts.values()))
  fits, distance, pooled = [], 0.0, 0.0
  for number, seen in counts.items():
    law, share = promised[number], float(seen.sum()) / rows
    fits.append(laws.chi_square(seen, law))
    distance += float(np.abs(seen / rows - share * law).sum()) / 2
    pooled += fits[-1].pooled * share
  statistic, df = sum(fit.statistic for fit in fits), sum(fit.df for fit in fits)
  return Evidence(rows, distance, laws.Fit(statistic, df, pooled), 0.5 / rows**0.5)


def of_mean(difference: float, error: float, rows: int) -> Evidence:
  """A mean that is off by `difference`, with its standard error."""
  if error == 0:
    return exact(np.full(rows, abs(difference) > 1e-9))
  fit = laws.Fit(float(difference / error) ** 2, 1, 0.0)
  return Evidence(rows, abs(float(difference)), fit, float(error))


def exact(wrong: np.ndarray) -> Evidence:
  """Rows bool[R] that should all be right."""
  fit = laws.Fit(math.inf if wrong.any() else 0.0, 0, 0.0)
  return Evidence(len(wrong), float(wrong.mean()), fit)


@dataclasses.dataclass(frozen=True)
class Cell:
  """One check of the matrix."""

  part: str  # verifiers, drafters or decoding
  draft: str  # a drafter, or how the given drafts were made
  verifier: str
  check: str
  evidence: Evidence | None  # None: it could not be made, and `problem` says why
  lossy: bool = False  # by design: measured, never failed
  problem: str = ''  # what went wrong, as far as one row shows it


def judged(cells: Sequence[Cell]) -> list[dict]:
  """Each cell as a row of audit.json, with its Holm-adjusted p-value and status."""
  made = [cell.evidence for cell in cells if cell.evidence]
  adjusted = iter(intervals.holm([evidence.fit.p_value for evidence in made]))
  return [
    _row(cell, next(adjusted) if cell.evidence else None, FAMILY / max(len(made), 1))
    for cell in cells
  ]


def _row(cell: Cell, adjusted: float | None, level: float) -> dict:
  names = dict(
    part=cell.part, draft=cell.draft, verifier=cell.verifier, check=cell.check
  )
  if cell.evidence is None or adjusted is None:
    return names | dict(status='not checked', problem=cell.problem)
  fit = cell.evidence.fit
  failed = adjusted < FAMILY or bool(cell.problem)
  return names | dict(
    status='lossy' if cell.lossy else 'FAIL' if failed else 'pass',
    problem=cell.problem,
    rows=cell.evidence.rows,
    p_value=fit.p_value,
    p_holm=adjusted,
    distance=cell.evidence.distance,
    detectable=cell.evidence.detectable(level),
    chi_square=fit.statistic if math.isfinite(fit.statistic) else None,
    df=fit.df,
  )
