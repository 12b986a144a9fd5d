"""Intervals and comparisons of a table's methods, from their questions (item 3).

What is resampled is a question, or a batch: rows of a batch share their time, and were
not sampled apart. All methods of a table share the draws. Fewer than 5 such units give
no interval.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from experiments.repeats import Question, each_speed
from specjax import intervals
from specjax.intervals import LogEstimate, Resamples

FEWEST = 5  # units
ALPHA = 0.05


@dataclasses.dataclass(frozen=True, eq=False)
class Units:
  """Totals of what is resampled, each float[U]."""

  tokens: np.ndarray
  seconds: np.ndarray
  calls: np.ndarray


def estimates(
  about: Mapping[str, dict], questions: Mapping[str, Sequence[Question]]
) -> dict[str, dict]:
  """Fields of each method's row of the summary; None where there is too little.

  Args:
    about: methods.json.
    questions: every method's questions of one category, the same ones for all.
  """
  fields: dict[str, dict] = {}
  for name, mine in questions.items():
    compared = about[name]['against'] != name
    base = questions[about[name]['against']]
    fields[name] = dict.fromkeys(
      ('speedup_ci95', 'mean_accepted_length_ci95', 'p_holm', 'best')
    ) | (_over_repeats(mine, base) if compared else {})
  strata = _strata(next(iter(questions.values())))
  if len(strata) < FEWEST:
    return fields
  draws = intervals.resamples(strata)
  units = {name: _units(mine) for name, mine in questions.items()}
  for name, mine in units.items():
    tau = intervals.log_ratio([mine.tokens], [mine.calls], draws)
    fields[name]['mean_accepted_length_ci95'] = tau.interval
  _against_baselines(about, units, draws, fields)
  for names in _contenders(about):
    baseline = about[names[0]]['against']
    not_worse = _not_worse([*names, baseline], units, draws)
    for name in names:
      fields[name]['best'] = not_worse[name]
  return fields


def _over_repeats(mine: Sequence[Question], base: Sequence[Question]) -> dict:
  """The second interval: noise of the machine.

  Two runs of the same comparison, with standard errors s1 and s2, differ if
  |log r1 - log r2| >= 1.96 sqrt(s1^2 + s2^2).
  """
  logs = np.log(each_speed(mine) / each_speed(base))
  estimate = intervals.over_repeats(logs.tolist())
  return {
    'speedup_ci95_repeats': estimate and estimate.interval,
    'speedup_log_se_repeats': estimate and estimate.se,
  }


def _against_baselines(
  about: Mapping[str, dict],
  units: Mapping[str, Units],
  draws: Resamples,
  fields: Mapping[str, dict],
) -> None:
  """Fills in speed-ups; p-values are adjusted for all of a table's, A/A included."""
  pairs = {name: about[name]['against'] for name in units}
  ratios = {
    name: _ratio(units[name], units[base], draws)
    for name, base in pairs.items()
    if name != base
  }
  adjusted = intervals.holm([ratio.p_value for ratio in ratios.values()])
  for (name, ratio), p in zip(ratios.items(), adjusted):
    fields[name] |= {'speedup_ci95': ratio.interval, 'p_holm': p}


def _contenders(about: Mapping[str, dict]) -> list[list[str]]:
  """Lossless methods that draft, by temperature; no oracles: those are ceilings.

  Each group competes with its baseline, too: what is slower than that is not best.
  """
  groups: dict[float, list[str]] = {}
  for name, method in about.items():
    drafts = method['num_draft'] > 0 and method['drafter']['name'] != 'oracle'
    if method['lossless'] and drafts:
      groups.setdefault(method['temperature'], []).append(name)
  return list(groups.values())


def _not_worse(
  names: Sequence[str], units: Mapping[str, Units], draws: Resamples
) -> dict[str, bool]:
  """Whether a method is the fastest, or not worse at 5%, Holm-adjusted in its group."""
  speed = lambda name: units[name].tokens.sum() / units[name].seconds.sum()
  fastest = max(names, key=speed)
  others = [name for name in names if name != fastest]
  ratios = [_ratio(units[name], units[fastest], draws) for name in others]
  adjusted = intervals.holm([ratio.p_value for ratio in ratios])
  return {fastest: True} | {name: p >= ALPHA for name, p in zip(others, adjusted)}


def _ratio(mine: Units, other: Units, draws: Resamples) -> LogEstimate:
  return intervals.log_ratio(
    [mine.tokens, other.seconds], [mine.seconds, other.tokens], draws
  )


def _units(questions: Sequence[Question]) -> Units:
  """Sums over each batch, in the order of batches."""
  _, batch = np.unique([q.batch for q in questions], return_inverse=True)
  total = lambda numbers: np.bincount(batch, numbers)
  return Units(
    tokens=total([q.new_tokens for q in questions]),
    seconds=total([q.decode_s for q in questions]),
    calls=total([float(q.counts['target_calls']) for q in questions]),
  )


def _strata(questions: Sequence[Question]) -> list[str]:
  """The task of each batch, in the order of batches; its tasks where it has many."""
  tasks: dict[int, set[str]] = {}
  for question in questions:
    tasks.setdefault(question.batch, set()).add(question.task)
  return ['+'.join(sorted(tasks[batch])) for batch in sorted(tasks)]
