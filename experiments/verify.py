"""Checks the outputs of a finished comparison, one's own or a stranger's.

The texts in `outputs.jsonl` run through the target one token at a time. A greedy token
must be the target's best, a token of a method with shared noise (gumbel) the best of
log p + g under the seed of its row, up to a near-tie of 2 eps (statistics.md, item 7).
Other sampled methods choose at random: their tokens must have a probability above 0.
Methods that are not lossless are left out. What the files say of themselves is checked
first, see `claims`.

  python -m experiments.verify RUN

Writes RUN/verify.json and ends with 1 if a row fails.
"""

import collections
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import rich.console
import rich.table
from absl import app

import specjax
from experiments import claims, near_ties, progress, rundir, teacher_forcing
from experiments.claims import Row
from specjax import sampling
from specjax.model import Model

BATCH = 8  # rows at once
FLOOR_POSITIONS = 1000
OFF = {'top_k': 0, 'top_p': 1.0, 'min_p': 0.0}
EDGE = 1e-4  # how much wider a filter may be by rounding
LARGEST = np.finfo(float).max  # a gap above it is infinite: a token of probability 0


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
    ValueError: no finished comparison; what it says of itself is wrong, see `claims`.
  """
  if not (run / 'done').exists():
    raise ValueError(f'{run} holds no finished comparison: there is no `done`')
  config = json.loads((run / 'config.json').read_text())
  if config['experiment'] != 'compare':
    raise ValueError(f'{run} is a run of {config["experiment"]}, not a comparison')
  model = specjax.load(config['target'])
  rows = claims.read(run, model, config)
  filters = {name: config[name] for name in ('top_k', 'top_p', 'min_p')}
  eps = floor(model, rows, width=1 + _most_nodes(run))
  batches = list(_batches(rows))
  found = collections.defaultdict(list)
  for batch in progress.track(batches, 'verify', rich.console.Console()):
    for row, gap in zip(batch, check(model, batch, filters)):
      found[row.method].append((row, gap))
  methods = {name: _summary(pairs, eps) for name, pairs in found.items()}
  certified = all(method['failed'] == 0 for method in methods.values())
  about = json.loads((run / 'methods.json').read_text())
  left_out = [name for name in about if name not in methods]
  report = {'eps': eps, 'methods': methods, 'left_out': left_out}
  report['certified'] = certified
  rundir.write_json(run / 'verify.json', report)
  return report


def check(model: Model, batch: Sequence[Row], filters: dict) -> list[np.ndarray]:
  """For each row float[n]: how far each token stands below the target's choice.

  Where filters end is rounded, too: a token may pass by slightly wider ones.
  """
  prompts, outputs = [r.prompt for r in batch], [r.tokens for r in batch]
  force = lambda **how: [
    forced.gap
    for forced in teacher_forcing.certify(
      model.target, model.params, prompts, outputs, **how
    )
  ]
  if batch[0].rule == 'greedy':
    return force()
  gaps = [force(score=_score(batch, filters))]
  if filters != OFF:
    gaps.append(force(score=_score(batch, _wider(filters))))
  return [np.minimum.reduce(both) for both in zip(*gaps)]


def _score(batch: Sequence[Row], filters: dict):
  rules = sampling.make_sampling(
    len(batch), temperature=[r.temperature for r in batch], **filters
  )
  if batch[0].rule == 'support':
    return lambda logits, _: teacher_forcing.law_score(logits, rules)
  seeds = jnp.array([row.seed for row in batch], jnp.uint32)
  ends = jnp.array([len(row.prompt) for row in batch], jnp.int32)
  return lambda logits, column: teacher_forcing.gumbel_score(
    logits, rules, seeds, ends + column
  )


def _wider(filters: dict) -> dict:
  return {
    'top_k': filters['top_k'] and filters['top_k'] + 1,
    'top_p': min(1.0, filters['top_p'] + EDGE),
    'min_p': filters['min_p'] * (1 - EDGE),
  }


def floor(model: Model, rows: Sequence[Row], width: int) -> float:
  """eps on the run's own texts: at least FLOOR_POSITIONS tokens, or all there are."""
  chosen: list[Row] = []
  for row in rows:
    if sum(len(r.tokens) for r in chosen) < FLOOR_POSITIONS:
      chosen.append(row)
  texts = [(row.prompt, row.tokens) for row in chosen]
  return near_ties.floor(model, texts, width)[0]


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
  if report['left_out']:
    console.print(f'not lossless, left out: {", ".join(report["left_out"])}')
  verdict = 'certified' if report['certified'] else 'NOT certified: see verify.json'
  console.print(verdict)


def _summary(pairs: Sequence[tuple[Row, np.ndarray]], eps: float) -> dict:
  """A token off the target's choice by more than a near-tie fails its row."""
  rule, temperature = pairs[0][0].rule, pairs[0][0].temperature
  limit = LARGEST if rule == 'support' else 2 * eps / (temperature or 1.0)
  failed = [row.prompt_id for row, gap in pairs if not gap.max(initial=0.0) <= limit]
  every = np.concatenate([gap for _, gap in pairs])
  finite = every[np.isfinite(every)]
  return {
    'rule': rule,
    'rows': len(pairs),
    'tokens': every.size,
    'flips': None if rule == 'support' else int(np.sum(every > 0)),
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


def _most_nodes(run: Path) -> int:
  about = json.loads((run / 'methods.json').read_text())
  return max(method.get('num_nodes', method['num_draft']) for method in about.values())


if __name__ == '__main__':
  app.run(main)
