"""What the times of single rounds say: latency of tokens, and a predicted speed-up.

Rows of phases.jsonl: a few prompts, decoded once more from the host. See statistics.md.
"""

import statistics
from collections.abc import Sequence

import numpy as np

from experiments.repeats import Question, speed

FEWEST = 10  # rounds of a kind, and positions, below which they have no mean


def of_prompts(phases: Sequence[dict], name: str, prompt_ids: set) -> list[dict]:
  """A method's timed rounds on these prompts; on all prompts if on none of these."""
  mine = [row for row in phases if row['method'] == name]
  return [row for row in mine if prompt_ids.issuperset(row['prompt_ids'])] or mine


def latency(phases: Sequence[dict]) -> dict:
  """Inter-token latency: tokens of a round arrive together, so the gap between rounds.

  As in item 9. It is timed from the host: a round in the compiled loop takes less.
  """
  gaps = [seconds for row in phases for seconds in row['round_s']]
  if not gaps:
    return {}
  middle, slow = 1000 * np.percentile(gaps, [50, 99])
  return {'itl_p50_ms': float(middle), 'itl_p99_ms': float(slow)}


def alpha(phases: Sequence[dict]) -> dict:
  """Mean overlap of p and q where drafts get to, and where rounds start (item 5)."""
  found = [row['overlap'] for row in phases if row.get('overlap')]
  means = {}
  for field, part in (('alpha', 'all'), ('alpha_round_starts', 'round_starts')):
    total, weight = np.sum([each[part] for each in found], axis=0) if found else (0, 0)
    means[field] = float(total / weight) if weight >= FEWEST else None
  return means


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
  Fewer than ten of a kind give no price: a round without a draft is then taken to cost
  what the baseline's does, and without drafted ones nothing is predicted. Batch 1 only:
  in a batch one row that drafts makes all rows pay.
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
  """Median seconds of the rounds that drafted, or did not; None of too few."""
  rounds = [pair for p in phases for pair in zip(p['round_s'], p['round_drafted'])]
  seconds = [s for s, kind in rounds if kind == drafted]
  return statistics.median(seconds) if len(seconds) >= FEWEST else None
