"""From rows of results to rows of summary.json; definitions: statistics.md.

Speed-ups are against the baseline of the same temperature, on the same questions.
Numbers that nothing was measured for are None, or not there.
"""

import operator
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from experiments import rounds
from experiments.estimates import estimates
from experiments.repeats import Question, of_task, per_question, speed, speedup
from specjax import stats

SHORT = 16  # questions with fewer new tokens have no ratio of their own (item 9)


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
    chosen = {name: of_task(all_of_it, task) for name, all_of_it in questions.items()}
    estimated = estimates(about, chosen)
    for name, method in about.items():
      mine, base = chosen[name], chosen[method['against']]
      row = {'method': name, 'category': task or 'all'}
      row |= speeds(mine, base, method['batch_size']) | acceptance(mine)
      row |= estimated[name]
      ids = {question.prompt_id for question in mine}
      own, theirs = (
        rounds.of_prompts(phases, who, ids) for who in (name, method['against'])
      )
      row |= rounds.latency(own)
      row |= rounds.alpha([p for p in own if ids.issuperset(p['prompt_ids'])])
      if method['batch_size'] == 1:
        row |= rounds.predicted(mine, base, own, theirs)
      if task is None:
        row['compile_s'] = method['compile_s']
      summary.append(row)
  return summary


def speeds(mine: list[Question], base: list[Question], batch_size: int) -> dict:
  """Time of a method and of its baseline on the same questions."""
  pairs = list(zip(mine, base))
  calm = [(m, b) for m, b in pairs if not b.degenerate]
  long = [(m, b) for m, b in pairs if min(m.new_tokens, b.new_tokens) >= SHORT]
  alone = batch_size == 1  # else a row's time is its batch's, not that of its tokens
  return {
    'n_prompts': len(pairs),
    'n_short': len(pairs) - len(long),
    'n_degenerate': len(pairs) - len(calm),
    'speedup': speedup(pairs),
    'speedup_geomean': statistics.geometric_mean(speedup([pair]) for pair in long)
    if long and alone
    else None,
    'speedup_nondegenerate': speedup(calm) if calm else None,
    'end_to_end_speedup': speedup(pairs, 'total_s'),
    'tokens_per_second': speed(mine) * batch_size,
    'tokens_per_second_per_user': speed(mine),
    'tpot_ms': 1000 / speed(mine),
    **dict.fromkeys(('tpot_p50_ms', 'tpot_p99_ms')),
    **(tpot(mine) if alone else {}),
  }


def tpot(questions: list[Question]) -> dict:
  """Milliseconds a token: the middle request, and the slowest of a hundred."""
  each = [1000 * q.decode_s / q.new_tokens for q in questions]
  middle, slow = np.percentile(each, [50, 99])
  return {'tpot_p50_ms': float(middle), 'tpot_p99_ms': float(slow)}


def acceptance(questions: list[Question]) -> dict:
  """How many tokens a target call gives, and how many drafts were right."""
  names = questions[0].counts
  total = {name: np.sum([q.counts[name] for q in questions], axis=0) for name in names}
  calls = [float(q.counts['target_calls']) for q in questions]
  tokens = [q.new_tokens for q in questions]
  drafted, sources = total['drafted'], total['accepted_from']
  identical = [same for q in questions for same in q.identical]
  return {
    'mean_accepted_length': sum(tokens) / sum(calls),
    'mean_accepted_length_macro': statistics.fmean(
      map(operator.truediv, tokens, calls)
    ),
    'acceptance_rate': float(total['accepted'] / drafted) if drafted else None,
    'per_position_acceptance': stats.per_position_acceptance(
      total['accepted_histogram'], total['offered']
    ),
    'tau_by_position': tau_by_position(
      total['calls_by_position'], total['tokens_by_position']
    ),
    'accepted_from': dict(zip(stats.SOURCES, (sources / sources.sum()).tolist()))
    if sources.any()
    else None,
    'identical_fraction': statistics.fmean(identical) if identical else None,
  }


def tau_by_position(calls: np.ndarray, tokens: np.ndarray) -> dict[str, float]:
  """tau of the rounds that began at output positions 0-31, 32-63, ..., 1024+."""
  ends = [f'-{start - 1}' for start in stats.POSITIONS[1:]] + ['+']
  labels = [f'{start}{end}' for start, end in zip(stats.POSITIONS, ends)]
  return {name: float(t / c) for name, c, t in zip(labels, calls, tokens) if c}
