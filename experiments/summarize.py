"""From rows of results to rows of summary.json; definitions: statistics.md.

A question is one prompt with its repeats. Its time is the median over repeats of the
time per token, times its mean number of tokens: at temperature 0, where repeats give
the same text, that is the median time. Speed-ups are against the baseline of the same
temperature, on the same questions. Numbers that nothing was measured for are None.
"""

import dataclasses
import operator
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
      row = {'method': name, 'category': task or 'all'}
      row |= speeds(mine, base, method['batch_size']) | acceptance(mine)
      if method['batch_size'] == 1:
        ids = {question.prompt_id for question in mine}
        row |= predicted(
          mine,
          base,
          rounds_of(phases, name, ids),
          rounds_of(phases, method['against'], ids),
        )
      if task is None:
        row['compile_s'] = method['compile_s']
      summary.append(row)
  return summary


def per_question(rows: Sequence[dict], method: str) -> list[Question]:
  """Joins the repeats of each prompt; in the order of prompt ids, for all methods."""
  repeats: dict[int, list[dict]] = {}
  for row in rows:
    if row['method'] == method:
      repeats.setdefault(row['prompt_id'], []).append(row)
  return [_question(repeats[prompt_id]) for prompt_id in sorted(repeats)]


def of_task(questions: Sequence[Question], task: str | None) -> list[Question]:
  """The questions of a task; None: all."""
  return [question for question in questions if task in (None, question.task)]


def speeds(mine: list[Question], base: list[Question], batch_size: int) -> dict:
  """Time of a method and of its baseline on the same questions."""
  pairs = list(zip(mine, base))
  calm = [(m, b) for m, b in pairs if not b.degenerate]
  long = [(m, b) for m, b in pairs if min(m.new_tokens, b.new_tokens) >= SHORT]
  return {
    'n_prompts': len(pairs),
    'n_short': len(pairs) - len(long),
    'n_degenerate': len(pairs) - len(calm),
    'speedup': speedup(pairs),
    'speedup_geomean': statistics.geometric_mean(speedup([pair]) for pair in long)
    if long
    else None,
    'speedup_nondegenerate': speedup(calm) if calm else None,
    'end_to_end_speedup': speedup(pairs, 'total_s'),
    'tokens_per_second': speed(mine) * batch_size,
    'tokens_per_second_per_user': speed(mine),
    'tpot_ms': 1000 / speed(mine),
  }


def acceptance(questions: list[Question]) -> dict:
  """How many tokens a target call gives, and how many drafts were right."""
  names = questions[0].counts
  total = {name: np.sum([q.counts[name] for q in questions], axis=0) for name in names}
  calls = [float(q.counts['target_calls']) for q in questions]
  tokens = [q.new_tokens for q in questions]
  drafted, identical = total['drafted'], [s for q in questions for s in q.identical]
  return {
    'mean_accepted_length': sum(tokens) / sum(calls),
    'mean_accepted_length_macro': statistics.fmean(
      map(operator.truediv, tokens, calls)
    ),
    'acceptance_rate': float(total['accepted'] / drafted) if drafted else None,
    'per_position_acceptance': stats.per_position_acceptance(
      total['accepted_histogram'], total['offered']
    ),
    'identical_fraction': statistics.fmean(identical) if identical else None,
  }


def speedup(
  pairs: Sequence[tuple[Question, Question]], seconds: str = 'decode_s'
) -> float:
  """The ratio of totals over some (method, baseline) pairs."""
  mine, base = zip(*pairs)
  return speed(mine, seconds) / speed(base, seconds)


def speed(questions: Sequence[Question], seconds: str = 'decode_s') -> float:
  """Tokens per second of a row: the ratio of totals."""
  total = sum(getattr(question, seconds) for question in questions)
  return sum(question.new_tokens for question in questions) / total


def rounds_of(phases: Sequence[dict], name: str, prompt_ids: set) -> list[dict]:
  """A method's timed rounds on these prompts; on all prompts if on none of these."""
  mine = [row for row in phases if row['method'] == name]
  return [row for row in mine if prompt_ids.issuperset(row['prompt_ids'])] or mine


def predicted(
  mine: list[Question],
  base: list[Question],
  phases: Sequence[dict],
  base_phases: Sequence[dict],
) -> dict:
  """Milliseconds of a round, and the speed-up that rounds and their prices predict.

  predicted = tau x (time of a baseline round) / (mean time of a round). A round that
  drafted has one price and a round without a draft another, both medians over the
  prompts decoded round by round; how often each occurs is counted on the questions.
  A round without a draft that was never seen is taken to cost what the baseline's
  does. Batch 1 only: in a batch one row that drafts makes all rows pay.
  """
  plain = _price(base_phases, drafted=False)
  with_draft, without = (_price(phases, drafted=kind) for kind in (True, False))
  rounds = sum(q.counts['target_calls'] for q in mine)
  drafting = sum(q.counts['offered'][0] for q in mine if q.counts['offered'].size)
  if plain is None or not phases or (drafting and with_draft is None):
    return {}
  spent = drafting * (with_draft or 0) + (rounds - drafting) * (without or plain)
  round_s = spent / rounds
  tau = sum(q.new_tokens for q in mine) / rounds
  ratio = float(tau * plain / round_s)
  draft_s = statistics.fmean(row['draft_s'] for row in phases)
  return {
    'draft_ms': 1000 * draft_s,
    'verify_ms': float(1000 * (round_s - draft_s)),
    'predicted_speedup': ratio,
    'measured_over_predicted': speed(mine) / speed(base) / ratio,
  }


def _price(phases: Sequence[dict], drafted: bool) -> float | None:
  """Median seconds of the rounds that drafted, or did not; None if none was seen."""
  rounds = [pair for p in phases for pair in zip(p['round_s'], p['round_drafted'])]
  seconds = [s for s, kind in rounds if kind == drafted]
  return statistics.median(seconds) if seconds else None


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
