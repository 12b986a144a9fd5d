"""Rows of results joined to questions: a prompt, its turns and repeats (statistics.md).

A turn's decode time is the median over repeats of the time per token, times its mean
number of tokens: at temperature 0, where repeats give the same text, that is the median
time. A question's time is that of all its turns.
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


def _question(rows: Sequence[dict]) -> Question:
  """Rows of one prompt: its repeats, and of each of them all turns."""
  turns = [
    [row for row in rows if row['turn'] == turn]
    for turn in sorted({row['turn'] for row in rows})
  ]
  counts = [_counts(row) for row in rows]
  repeats = len(turns[0])
  each = lambda field: [
    sum(turn[repeat][field] for turn in turns) for repeat in range(repeats)
  ]
  return Question(
    prompt_id=rows[0]['prompt_id'],
    task=rows[0]['task'],
    batch=rows[0]['batch'],
    new_tokens=sum(map(_tokens, turns)),
    decode_s=sum(map(_decode_s, turns)),
    total_s=sum(_decode_s(turn) + _prefill_s(turn) for turn in turns),
    counts={n: np.sum([c[n] for c in counts], axis=0) / repeats for n in counts[0]},
    identical=[
      row['identical_to_baseline']
      for row in rows
      if row['identical_to_baseline'] is not None
    ],
    degenerate=any(
      row['repeat8'] > REPETITIVE or row['loop_onset'] is not None for row in rows
    ),
    each_tokens=each('new_tokens'),
    each_decode_s=each('decode_s'),
  )


def _tokens(repeats: Sequence[dict]) -> float:
  return statistics.fmean(row['new_tokens'] for row in repeats)


def _decode_s(repeats: Sequence[dict]) -> float:
  """The median time per token, times the mean number of tokens.

  Rows of a batch share a time that is not that of their own tokens: there it is the
  median, or the mean where repeats give other texts.
  """
  if repeats[0]['batch_size'] == 1:
    per_token = statistics.median(r['decode_s'] / r['new_tokens'] for r in repeats)
    return _tokens(repeats) * per_token
  same_text = len({row['tokens_sha256'] for row in repeats}) == 1
  middle = statistics.median if same_text else statistics.fmean
  return middle(row['decode_s'] for row in repeats)


def _prefill_s(repeats: Sequence[dict]) -> float:
  return statistics.median(row['prefill_s'] for row in repeats)


def _counts(row: dict) -> dict[str, np.ndarray]:
  names = 'target_calls', 'drafted', 'accepted', 'accepted_histogram', 'offered'
  names += 'calls_by_position', 'tokens_by_position'
  counts = {name: np.asarray(row[name], float) for name in names}
  sources = [row['accepted_from'][source] for source in stats.SOURCES]
  return counts | {'accepted_from': np.asarray(sources, float)}
