"""Checks the outputs of a finished comparison, one's own or a stranger's.

The texts in `outputs.jsonl` run through the target one token at a time. A greedy token
must be the target's best, a token of a method with shared noise (gumbel) the best of
log p + g under the seed of its row, up to a near-tie of 2 eps (statistics.md, item 7).
Other sampled methods choose at random: their tokens must have a probability above 0.
Methods that are not lossless are left out.

  python -m experiments.verify RUN

Writes RUN/verify.json and ends with 1 if a row fails.
"""

import collections
import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import rich.console
import rich.table
from absl import app

import specjax
from experiments import progress, questions, records, rundir, teacher_forcing
from specjax import sampling, stats
from specjax.model import Model

BATCH = 8  # rows at once
FLOOR_POSITIONS = 1000
LARGEST = np.finfo(float).max  # a gap above it is infinite: a token of probability 0


@dataclasses.dataclass(frozen=True)
class Row:
  """One output of a run, with what is needed to read it again."""

  method: str
  prompt_id: int
  prompt: list[int]
  tokens: list[int]
  seed: int
  temperature: float
  rule: str  # greedy, gumbel or support


def main(argv: list[str]) -> None:
  if len(argv) != 2:
    sys.exit('usage: python -m experiments.verify RUN')
  try:
    report = verify(Path(argv[1]))
  except (ValueError, OSError) as error:
    sys.exit(str(error))
  show(rich.console.Console(), report)
  sys.exit(0 if report['certified'] else 1)


def verify(run: Path) -> dict:
  """Reads a run, checks all of it and writes verify.json.

  Raises:
    ValueError: the run has not finished; its tokens are not those of its results.
  """
  if not (run / 'done').exists():
    raise ValueError(f'{run} holds no finished comparison: there is no `done`')
  config = json.loads((run / 'config.json').read_text())
  model = specjax.load(config['target'])
  rows = read(run, model, config)
  filters = {name: config[name] for name in ('top_k', 'top_p', 'min_p')}
  eps = floor(model, rows, width=1 + _deepest(run))
  batches = list(_batches(rows))
  found = collections.defaultdict(list)
  for batch in progress.track(batches, 'verify', rich.console.Console()):
    for row, forced in zip(batch, check(model, batch, filters)):
      found[row.method].append((row, forced))
  methods = {name: _summary(pairs, eps) for name, pairs in found.items()}
  certified = all(method['failed'] == 0 for method in methods.values())
  report = {'eps': eps, 'methods': methods, 'certified': certified}
  rundir.write_json(run / 'verify.json', report)
  return report


def read(run: Path, model: Model, config: dict) -> list[Row]:
  """All outputs of a run; equal texts of a method's repeats at T = 0 once."""
  about = json.loads((run / 'methods.json').read_text())
  turns = {p.id: p.turns for p in questions.load(config['prompts'])}
  results = _lines(run / 'results.jsonl')
  outputs = {records.key(r): r['tokens'] for r in _lines(run / 'outputs.jsonl')}
  rows = {}
  for result in results:
    if not about[result['method']]['lossless']:
      continue
    tokens = outputs.get(records.key(result))
    if tokens is None or stats.tokens_sha256(tokens) != result['tokens_sha256']:
      raise ValueError(
        f'{run}: outputs.jsonl does not hold the tokens of results.jsonl for method, '
        f'prompt, repeat and turn {records.key(result)}'
      )
    method, turn = about[result['method']], result['turn']
    earlier = result | {'method': method['against']}
    answers = [outputs[records.key(earlier | {'turn': t})] for t in range(1, turn)]
    row = Row(
      method=result['method'],
      prompt_id=result['prompt_id'],
      prompt=questions.token_ids(model, turns[result['prompt_id']][:turn], answers),
      tokens=tokens,
      seed=result['seed'] if method['temperature'] else 0,
      temperature=method['temperature'],
      rule=_rule(method),
    )
    rows[row.method, turn, row.prompt_id, row.seed, tuple(tokens)] = row
  return list(rows.values())


def check(model: Model, batch: Sequence[Row], filters: dict):
  """A `teacher_forcing.Forced` for each row; all rows have one rule."""
  prompts, outputs = [r.prompt for r in batch], [r.tokens for r in batch]
  force = lambda **how: teacher_forcing.certify(
    model.target, model.params, prompts, outputs, **how
  )
  if batch[0].rule == 'greedy':
    return force()
  rules = sampling.make_sampling(
    len(batch), temperature=[r.temperature for r in batch], **filters
  )
  if batch[0].rule == 'gumbel':
    seeds = [row.seed for row in batch]
    return force(score=teacher_forcing.gumbel_score(prompts, seeds, rules))
  return force(score=lambda x, _: sampling.warp(x[:, None], rules)[:, 0])


def floor(model: Model, rows: Sequence[Row], width: int) -> float:
  """eps on the run's own texts: at least FLOOR_POSITIONS tokens, or all there are."""
  chosen: list[Row] = []
  for row in rows:
    if sum(len(r.tokens) for r in chosen) < FLOOR_POSITIONS:
      chosen.append(row)
  floors = [
    teacher_forcing.floor(
      model.target,
      model.params,
      [r.prompt for r in chosen[i : i + BATCH]],
      [r.tokens for r in chosen[i : i + BATCH]],
      width,
    )
    for i in range(0, len(chosen), BATCH)
  ]
  return max(floor.eps for floor in floors)


def show(console: rich.console.Console, report: dict) -> None:
  """One line a method."""
  table = rich.table.Table(
    title=f'near-tie: a gap of at most 2 eps = 2 x {report["eps"]:.1e}'
  )
  fields = 'rule', 'rows', 'tokens', 'flips', 'largest_gap', 'impossible', 'failed'
  for name in ('method', *fields):
    table.add_column(
      name.replace('_', ' '), justify='left' if name == 'method' else 'right'
    )
  for name, method in report['methods'].items():
    cells = [method[field] for field in fields]
    table.add_row(
      name, *(f'{x:.1e}' if isinstance(x, float) else str(x) for x in cells)
    )
  console.print(table)
  verdict = 'certified' if report['certified'] else 'NOT certified: see verify.json'
  console.print(verdict)


def _rule(method: dict) -> str:
  if method['temperature'] == 0:
    return 'greedy'
  return 'gumbel' if method['same_text'] else 'support'


def _summary(pairs: Sequence[tuple], eps: float) -> dict:
  """A token off the target's choice by more than a near-tie fails its row."""
  rule, temperature = pairs[0][0].rule, pairs[0][0].temperature
  limit = LARGEST if rule == 'support' else 2 * eps / (temperature or 1.0)
  gaps = [float(forced.gap.max(initial=0.0)) for _, forced in pairs]
  failed = [row.prompt_id for (row, _), gap in zip(pairs, gaps) if not gap <= limit]
  every = np.concatenate([forced.gap for _, forced in pairs])
  flips = sum(int(np.sum(forced.best != row.tokens)) for row, forced in pairs)
  finite = every[np.isfinite(every)]
  return {
    'rule': rule,
    'rows': len(pairs),
    'tokens': every.size,
    'flips': None if rule == 'support' else flips,
    'largest_gap': None if rule == 'support' else float(finite.max(initial=0.0)),
    'impossible': every.size - finite.size,
    'failed': len(failed),
    'failed_prompts': failed,
  }


def _batches(rows: Sequence[Row]) -> Iterable[list[Row]]:
  """Rows of one rule and of similar length together."""
  for rule in ('greedy', 'gumbel', 'support'):
    alike = [row for row in rows if row.rule == rule]
    alike.sort(key=lambda row: len(row.prompt))
    for start in range(0, len(alike), BATCH):
      yield alike[start : start + BATCH]


def _deepest(run: Path) -> int:
  about = json.loads((run / 'methods.json').read_text())
  return max(method['num_draft'] for method in about.values())


def _lines(path: Path) -> list[dict]:
  return [json.loads(line) for line in path.read_text().splitlines()]


if __name__ == '__main__':
  app.run(main)
