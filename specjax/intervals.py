"""How sure a ratio of totals is: intervals, p-values, many comparisons (items 3, 4).

Everything is on the log scale. A unit is what was sampled: a question, or a batch of
them where they were decoded together. log R = sum_k +-log(sum_i x_ik) over units i, all
columns k resampled together, so two methods on the same questions are paired.

The interval is log R +- t_df * se, made for few questions with heavy tails:

- se: standard deviation of log R over bootstrap draws of units inside strata. A stratum
  of n units gives n - 1 units a draw, weighted n / (n - 1) (Rao and Wu 1988): n out of
  n units has a variance too small by (n - 1) / n, a tenth for ten questions a task.
- CAUTION: se is multiplied by it; without it 94% were covered, and 5% of A/A flagged.
- df: Satterthwaite's degrees of freedom from the kurtosis inside strata, at most units
  less strata. One question that stands out makes the variance itself uncertain.

Coverage, and share of A/A runs with 1 outside, in simulations (tests/intervals_test.py:
60 questions of 6 tasks). First 15% of timings disturbed and up to 512 tokens; then 3%
and 128. The others have 600 runs (* 1,000), this one 4,000:

                                      coverage      A/A
  percentile, n out of n units        91% *         10% *
  percentile, n - 1 out of n          92%, 93%      8%, 4%
  bias-corrected and accelerated      90% *         19% *
  studentized, equal tails            94%, 94%      8%, 4%
  studentized, symmetric              95%, 94%      0%, 4%   wide after one outlier
  t, df = units less strata           93%, 93%      2%, 4%
  this one without CAUTION            94%, 95%      1%, 5%
  this one                            95%, 96%      1%, 4%

One task of ten questions: 93% are covered; of five: 91 to 93%, and 4 to 6% of A/A.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike

DRAWS = 10_000
CAUTION = 1.05


@dataclasses.dataclass(frozen=True)
class LogEstimate:
  """The log of a positive number, with its standard error."""

  log: float
  se: float
  df: float

  @property
  def interval(self) -> tuple[float, float]:
    """95% interval of the number itself: exp(log +- t_df * se)."""
    margin = scipy.stats.t.ppf(0.975, self.df) * self.se
    return float(np.exp(self.log - margin)), float(np.exp(self.log + margin))

  @property
  def p_value(self) -> float:
    """Two-sided, that the number is 1: below 0.05 if and only if 1 is outside."""
    if self.se == 0:
      return float(self.log == 0)
    return float(2 * scipy.stats.t.sf(abs(self.log) / self.se, self.df))


@dataclasses.dataclass(frozen=True, eq=False)
class Resamples:
  """Bootstrap draws; all methods of a table share them."""

  stratum: np.ndarray  # int[n] of each unit
  weights: np.ndarray  # float[D, n] how often a draw has a unit, rescaled


def resamples(strata: Sequence, draws: int = DRAWS, seed: int = 0) -> Resamples:
  """Draws units inside strata.

  Args:
    strata: n labels, one a unit.

  Raises:
    ValueError: fewer than two units.
  """
  if len(strata) < 2:
    raise ValueError(f'an interval needs two units, got {len(strata)}')
  stratum = joined(strata)
  rng = np.random.default_rng(seed)
  weights = np.empty((draws, len(strata)))
  for h in range(stratum.max() + 1):
    (members,) = np.nonzero(stratum == h)
    n = len(members)
    taken = rng.multinomial(n - 1, np.full(n, 1 / n), size=draws)
    weights[:, members] = taken * n / (n - 1)
  return Resamples(stratum, weights)


def joined(strata: Sequence) -> np.ndarray:
  """Numbers the strata, int[n]; those of one unit, which has no spread, become one.

  If there is only one such it joins the smallest other.
  a a b c d -> 0 0 1 1 1;  a a b b b c -> 0 0 1 1 1 0
  """
  _, index, counts = np.unique(strata, return_inverse=True, return_counts=True)
  lonely = counts[index] == 1
  if lonely.sum() == 1 and len(counts) > 1:
    lonely |= index == np.argmin(np.where(counts == 1, len(index), counts))
  if lonely.any():
    index[lonely] = index[lonely].min()
  return np.unique(index, return_inverse=True)[1]


def log_ratio(above: ArrayLike, below: ArrayLike, draws: Resamples) -> LogEstimate:
  """The product of the totals of `above` over that of the totals of `below`.

  Args:
    above, below: [k, n] positive numbers, a row for each total.

  A speed-up is above = (own tokens, baseline's time), below = (own time, baseline's
  tokens): tokens 4 2 and 4 2, times 1 1 and 2 4 -> 6 * 6 / (2 * 6) = 3
  """
  above, below = np.asarray(above, float), np.asarray(below, float)
  columns = np.concatenate([above, below])
  signs = np.repeat([1, -1], [len(above), len(below)])
  log = lambda weights: np.log(weights @ columns.T) @ signs
  pull = (signs / columns.sum(1)) @ columns  # d log R / d weight of a unit
  return LogEstimate(
    log=float(log(np.ones(columns.shape[1]))),
    se=CAUTION * float(np.std(log(draws.weights))),
    df=_degrees_of_freedom(pull, draws.stratum),
  )


def over_repeats(log_ratios: Sequence[float]) -> LogEstimate | None:
  """Mean and standard error over R repeats, df = R - 1; None for a single one.

  It holds for the same questions on the same machine: what it shows is noise of timing
  (above temperature 0 also of sampling).
  """
  count = len(log_ratios)
  if count < 2:
    return None
  se = float(np.std(log_ratios, ddof=1)) / count**0.5
  return LogEstimate(float(np.mean(log_ratios)), se, count - 1)


def holm(p_values: Sequence[float]) -> list[float]:
  """Adjusted p-values (Holm 1979): the chance of any false alarm stays below 5%.

  0.01 0.04 0.03 0.005 -> 0.03 0.06 0.06 0.02
  """
  p = np.asarray(p_values, float)
  order = np.argsort(p)
  stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
  adjusted = np.empty_like(p)
  adjusted[order] = np.minimum(stepped, 1)
  return adjusted.tolist()


def _degrees_of_freedom(values: np.ndarray, stratum: np.ndarray) -> float:
  """2 V^2 / Var(V) of V, the variance of a stratified sum of `values` [n].

  Var(s^2) = (m4 - m2^2 (n - 3) / (n - 1)) / n in a stratum of n with moments m2, m4:
  for normal values that is n - 1 degrees of freedom.
  """
  count = np.bincount(stratum)
  mean = lambda x: np.bincount(stratum, x) / count
  centred = values - mean(values)[stratum]
  m2, m4 = mean(centred**2), mean(centred**4)
  most = len(values) - len(count)
  spread = np.sum(count * (m4 - m2**2 * (count - 3) / (count - 1)))
  return float(min(2 * np.sum(count * m2) ** 2 / spread, most)) if spread > 0 else most
