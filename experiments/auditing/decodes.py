"""Drafter and verifier end to end, through `specjax.decoding.decode`.

Texts of a few tokens over three: the law of all of them, greedy rows token by token,
and counts. Nearly all rows need two rounds or more, or mistakes that pass from one
round to the next would not be seen.
"""

import functools
from collections.abc import Sequence

import jax
import numpy as np
from flax import struct

from experiments.auditing import evidence, requests
from experiments.auditing.evidence import Cell
from experiments.auditing.requests import REQUESTS, Promise, Request, Setting
from specjax import decoding
from specjax.testing.subjects import Subject
from specjax.types import Stats

PART = 'decoding'
NEW = 5  # tokens of a text
BATCH = 50_000  # rows decoded at once
TWO_ROUNDS = 0.9  # of the rows, at least


@struct.dataclass
class Output:
  """What came out, on the host; zeros stand behind a text's end."""

  group: np.ndarray  # int[R], the row's request
  tokens: np.ndarray  # int[R, NEW]
  trace: np.ndarray  # int[R, NEW]
  count: np.ndarray  # int[R] emitted tokens
  stats: Stats


def checks(drafter: Subject, verifier: Subject, rows: int, seed: int) -> list[Cell]:
  """Law, greedy rows and counts of a pair.

  Raises:
    ValueError: the drafter works with no small target or drafts nothing, or the
      verifier refuses its drafts.
  """
  setting, rule = requests.setting(drafter), verifier.make()
  asked = requests.for_verifier(REQUESTS, rule)
  output = decode(setting, rule, asked, rows, seed)
  if not np.any(output.stats.drafted):
    raise ValueError(f'{drafter.name} drafts nothing in texts over {requests.V} tokens')
  cell = functools.partial(Cell, PART, drafter.name, verifier.name)
  lossy, too_short = not rule.lossless, _too_short(output)
  promised = Promise(asked, setting.table, output.group).text_laws(NEW)
  warm = {g: law for g, law in enumerate(promised) if asked[g].temperature > 0}
  texts, found = requests.cells(output.tokens), []
  if warm:
    seen = evidence.of_law(texts, output.group, warm)
    found.append(cell('law', seen, lossy, too_short))
  cold = np.flatnonzero(~np.isin(output.group, list(warm)))
  best = np.array([np.argmax(law) for law in promised])
  wrong = texts[cold] != best[output.group[cold]]
  problem = too_short
  if wrong.any():
    row = cold[np.argmax(wrong)]
    problem = f'row {row} emits {output.tokens[row].tolist()}: that is not plain greedy'
  found.append(cell('greedy', evidence.exact(wrong), lossy, problem))
  wrong = miscounted(output)
  problem = _described(output, int(np.argmax(wrong))) if wrong.any() else ''
  found.append(cell('counts', evidence.exact(wrong), False, problem))
  return found


def decode(
  setting: Setting, verifier, asked: Sequence[Request], rows: int, seed: int
) -> Output:
  """About `rows` rows, in batches with seeds of their own."""
  group = requests.groups(asked, min(rows, BATCH))
  parts = [
    _decode(setting, verifier, asked, group, seed * rows + number * len(group))
    for number in range(rows // len(group))
  ]
  return jax.tree.map(lambda *x: np.concatenate(x), *parts)


def _decode(setting, verifier, asked, group: np.ndarray, first_seed: int) -> Output:
  params, state = setting.begin(asked, group, NEW, first_seed)
  static = setting.model.target, setting.drafter, verifier
  state = jax.device_get(decoding.decode(*static, params, state))
  begin = np.array([len(request.prompt) for request in asked])[group]
  count, place = state.length - begin, begin[:, None] + np.arange(NEW)
  emitted = np.arange(NEW) < count[:, None]
  of = lambda buffer: np.where(emitted, np.take_along_axis(buffer, place, axis=1), 0)
  return Output(group, of(state.tokens), of(state.trace), count, state.stats)


def _too_short(output: Output) -> str:
  share = float(np.mean(output.stats.target_calls >= 2))
  if share >= TWO_ROUNDS:
    return ''
  return f'only {share:.0%} of the rows had two rounds: draft fewer tokens at once'


def miscounted(output: Output) -> np.ndarray:
  """Rows bool[R] whose counts are not those of their emitted tokens.

  trace 1 2 0 1: two rounds, three tokens accepted, the second round cut off behind one
  """
  trace, stats, rows = output.trace, output.stats, np.arange(len(output.trace))
  accepted = np.count_nonzero(trace, axis=1)
  cut = trace[rows, np.maximum(output.count - 1, 0)] > 0
  calls = output.count - accepted + cut
  behind = np.pad(trace[:, 1:], ((0, 0), (0, 1)))
  last = (trace > 0) & (behind != trace + 1)  # a round's last accepted token
  depths = np.arange(1, stats.histogram.shape[1])
  by_depth = np.sum(last[..., None] & (trace[..., None] == depths), axis=1)
  histogram = np.column_stack([calls - by_depth.sum(axis=1), by_depth])
  reached = np.cumsum(histogram[:, ::-1], axis=1)[:, ::-1][:, 1:]
  by_node = stats.node_accepted
  return (
    (stats.accepted != accepted)
    | (stats.target_calls != calls)
    | np.any(stats.histogram != histogram, axis=1)
    | np.any(stats.offered < reached, axis=1)
    | (stats.offered.sum(axis=1) > stats.drafted)
    | ((accepted if by_node is None else by_node.sum(axis=1)) != accepted)
  )


def _described(output: Output, row: int) -> str:
  count, stats = output.count[row], output.stats
  return (
    f'row {row} emits {output.tokens[row, :count].tolist()}, accepted at depths '
    f'{output.trace[row, :count].tolist()}, and counts {stats.accepted[row]} accepted '
    f'tokens, {stats.target_calls[row]} calls, rounds by accepted tokens '
    f'{stats.histogram[row].tolist()}, by depth offered {stats.offered[row].tolist()} '
    f'and {stats.drafted[row]} drafted'
  )
