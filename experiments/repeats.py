"""Rows of results joined to questions: a prompt with its repeats; see statistics.md.

A question's time is the median over repeats of the time per token, times its mean
number of tokens: at temperature 0, where repeats give the same text, that is the median
time.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from specjax import stats

REPETITIVE = 0.2  # repeat8 above this is degenerate (item 6)


@dataclasses.dataclass(frozen=True)
class Question:
  """A prompt's numbers for one method; counts are means over repeats."""

  prompt_id: int
  task: str
  batch: int  # questions with the same one were decoded together
  new_tokens: float
  decode_s: float
  total_s: float  # with prefill
  counts: Mapping[str, np.ndarray]  # target_calls, drafted, accepted, histograms
  identical: Sequence[bool]  # of the repeats, where that is asked
  degenerate: bool
  each_tokens: Sequence[int]  # new tokens of each repeat, in their order
  each_decode_s: Sequence[float]


def per_question(rows: Sequence[dict], method: str) -> list[Question]:
  """Joins the repeats of each prompt; in the order of prompt ids, for all methods."""
  repeats: dict[int, list[dict]] = {}
  for row in sorted(rows, key=lambda row: row['repeat']):
    if row['method'] == method:
      repeats.setdefault(row['prompt_id'], []).append(row)
  return [_question(repeats[prompt_id]) for prompt_id in sorted(repeats)]


def of_task(questions: Sequence[Question], task: str | None) -> list[Question]:
  """The questions of a task; None: all."""
  return [question for question in questions if task in (None, question.task)]


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


def each_speed(questions: Sequence[Question]) -> np.ndarray:
  """Tokens per second in each repeat, float[R]."""
  tokens = np.sum([question.each_tokens for question in questions], axis=0)
  return tokens / np.sum([question.each_decode_s for question in questions], axis=0)


def _question(repeats: Sequence[dict]) -> Question:
  tokens = statistics.fmean(row['new_tokens'] for row in repeats)
  time = lambda seconds: (
    tokens * statistics.median(seconds(row) / row['new_tokens'] for row in repeats)
  )
  counts = [_counts(row) for row in repeats]
  return Question(
    prompt_id=repeats[0]['prompt_id'],
    task=repeats[0]['task'],
    batch=repeats[0]['batch'],
    new_tokens=tokens,
    decode_s=time(lambda row: row['decode_s']),
    total_s=time(lambda row: row['prefill_s'] + row['decode_s']),
    counts={name: np.mean([c[name] for c in counts], axis=0) for name in counts[0]},
    identical=[
      row['identical_to_baseline']
      for row in repeats
      if row['identical_to_baseline'] is not None
    ],
    degenerate=any(
      row['repeat8'] > REPETITIVE or row['loop_onset'] is not None for row in repeats
    ),
    each_tokens=[row['new_tokens'] for row in repeats],
    each_decode_s=[row['decode_s'] for row in repeats],
  )


def _counts(row: dict) -> dict[str, np.ndarray]:
  names = 'target_calls', 'drafted', 'accepted', 'accepted_histogram', 'offered'
  names += 'calls_by_position', 'tokens_by_position'
  counts = {name: np.asarray(row[name], float) for name in names}
  sources = [row['accepted_from'][source] for source in stats.SOURCES]
  return counts | {'accepted_from': np.asarray(sources, float)}
