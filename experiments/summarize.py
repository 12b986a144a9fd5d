"""From rows of results to rows of summary.json; definitions: statistics.md.

A question is one prompt with its repeats. Its time is the median over repeats of the
time per token, times its mean number of tokens: at temperature 0, where repeats give
the same text, that is the median time. Speed-ups are against the baseline of the same
temperature, on the same questions. Numbers that nothing was measured for are None.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from specjax import stats

SHORT = 16  # questions with fewer new tokens have no ratio of their own (item 9)
REPETITIVE = 0.2  # repeat8 above this is degenerate (item 6)


@dataclasses.dataclass(frozen=True)
class Question:
  """A prompt's numbers for one method; counts are means over repeats."""

  prompt_id: int
  task: str
  new_tokens: float
  decode_s: float
  total_s: float  # with prefill
  counts: Mapping[str, np.ndarray]  # target_calls, drafted, accepted, histograms
  identical: Sequence[bool]  # of the repeats, where that is asked
  degenerate: bool


def summarize(
  about: Mapping[str, dict], rows: Sequence[dict], phases: Sequence[dict]
) -> list[dict]:
  """A row per method for 'all', then one per method and task.

  Args:
    about: methods.json.
    rows: results.jsonl.
    phases: phases.jsonl.
  """
  questions = {name: per_question(rows, name) for name in about}
  tasks = list(dict.fromkeys(row['task'] for row in rows))
  summary = []
  for task in [None, *tasks] if len(tasks) > 1 else [None]:
    for name, method in about.items():
      mine = of_task(questions[name], task)
      base = of_task(questions[method['against']], task)
      row = {'method': name, 'category': task or 'all', **measures(mine, base, method)}
      if task is None:
        row |= round_times(name, method['against'], questions, phases)
        row['compile_s'] = method['compile_s']
      summary.append(row)
  return summary


def per_question(rows: Sequence[dict], method: str) -> list[Question]:
  """Joins the repeats of each prompt."""
  repeats: dict[int, list[dict]] = {}
  for row in rows:
    if row['method'] == method:
      repeats.setdefault(row['prompt_id'], []).append(row)
  return [_question(same) for same in repeats.values()]


def of_task(questions: Sequence[Question], task: str | None) -> list[Question]:
  """The questions of a task; None: all."""
  return [question for question in questions if task in (None, question.task)]


def measures(mine: list[Question], base: list[Question], method: Mapping) -> dict:
  """Speed and acceptance over some questions; both lists hold the same ones."""
  batch = method['batch_size']
  calm = [(m, b) for m, b in zip(mine, base) if not b.degenerate]
  long = [
    (m, b) for m, b in zip(mine, base) if min(m.new_tokens, b.new_tokens) >= SHORT
  ]
  logs = [np.log(speed([m]) / speed([b])) for m, b in long]
  total = {n: np.sum([q.counts[n] for q in mine], axis=0) for n in mine[0].counts}
  identical = [same for q in mine for same in q.identical]
  return {
    'n_prompts': len(mine),
    'n_short': len(mine) - len(long),
    'n_degenerate': len(mine) - len(calm),
    'speedup': speed(mine) / speed(base),
    'speedup_geomean': float(np.exp(np.mean(logs))) if logs else None,
    'speedup_nondegenerate': speed([m for m, _ in calm]) / speed([b for _, b in calm])
    if calm
    else None,
    'end_to_end_speedup': speed(mine, 'total_s') / speed(base, 'total_s'),
    'tokens_per_second': speed(mine) * batch,
    'tokens_per_second_per_user': speed(mine),
    'tpot_ms': 1000 / speed(mine),
    'mean_accepted_length': float(
      sum(q.new_tokens for q in mine) / total['target_calls']
    ),
    'mean_accepted_length_macro': statistics.fmean(
      q.new_tokens / float(q.counts['target_calls']) for q in mine
    ),
    'acceptance_rate': float(total['accepted'] / total['drafted'])
    if total['drafted']
    else None,
    'per_position_acceptance': stats.per_position_acceptance(
      total['accepted_histogram'], total['offered']
    ),
    'identical_fraction': statistics.fmean(identical) if identical else None,
  }


def speed(questions: Sequence[Question], seconds: str = 'decode_s') -> float:
  """Tokens per second of a row: the ratio of totals."""
  total = sum(getattr(question, seconds) for question in questions)
  return sum(question.new_tokens for question in questions) / total


def round_times(
  name: str, baseline: str, questions: Mapping, phases: Sequence[dict]
) -> dict:
  """Milliseconds of a round, and the speed-up they predict.

  predicted = tau x (time of a baseline round) / (time of a round), tau and times from
  the prompts decoded round by round; `measured_over_predicted` takes the speed-up of
  the compiled loop on these same prompts.
  """
  mine = [row for row in phases if row['method'] == name]
  base = [row for row in phases if row['method'] == baseline]
  if not mine:
    return {}
  round_s, draft_s = _round_s(mine), statistics.fmean(row['draft_s'] for row in mine)
  predicted = _per_round(mine) / _per_round(base) * _round_s(base) / round_s
  timed = {prompt_id for row in mine for prompt_id in row['prompt_ids']}
  same = lambda asked: [q for q in asked if q.prompt_id in timed]
  measured = speed(same(questions[name])) / speed(same(questions[baseline]))
  return {
    'draft_ms': 1000 * draft_s,
    'verify_ms': 1000 * (round_s - draft_s),
    'predicted_speedup': predicted,
    'measured_over_predicted': measured / predicted,
  }


def _round_s(phases: Sequence[dict]) -> float:
  return statistics.fmean(s for row in phases for s in row['round_s'])


def _per_round(phases: Sequence[dict]) -> float:
  """Tokens that a round emits, of all rows of a batch."""
  rounds = sum(len(row['round_s']) for row in phases)
  return sum(row['new_tokens'] for row in phases) / rounds


def _question(repeats: Sequence[dict]) -> Question:
  tokens = statistics.fmean(row['new_tokens'] for row in repeats)
  time = lambda seconds: (
    tokens * statistics.median(seconds(row) / row['new_tokens'] for row in repeats)
  )
  names = 'target_calls', 'drafted', 'accepted', 'accepted_histogram', 'offered'
  return Question(
    prompt_id=repeats[0]['prompt_id'],
    task=repeats[0]['task'],
    new_tokens=tokens,
    decode_s=time(lambda row: row['decode_s']),
    total_s=time(lambda row: row['prefill_s'] + row['decode_s']),
    counts={
      name: np.mean([row[name] for row in repeats], axis=0, dtype=float)
      for name in names
    },
    identical=[
      row['identical_to_baseline']
      for row in repeats
      if row['identical_to_baseline'] is not None
    ],
    degenerate=any(
      row['repeat8'] > REPETITIVE or row['loop_onset'] is not None for row in repeats
    ),
  )
