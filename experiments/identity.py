"""Is the output of a lossless method the baseline's, token by token?

Greedy, in batches of prompts of similar length: the baseline and the method decode each
batch, and rows are compared. Where a row differs, the method's own output is teacher-
forced through the target one token at a time, in the same batch: that is the baseline's
own computation, so every emitted token must be its argmax or stand within a near-tie of
it, 2 eps (`experiments.teacher_forcing`). Rows that are identical need no such pass:
their baseline was it. `flips_per_10k` counts emitted tokens that are not the argmax.

  python -m experiments.main --config=configs/experiments/identity.py --workdir=DIR \
    --config.prompts=SPEC_BENCH.jsonl

Writes identity.json and table.md.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import rich
import rich.console
from rich import box, table

import specjax
from experiments import methods, progress, questions, rundir, teacher_forcing
from experiments.methods import Method
from specjax import stats
from specjax.model import Model


@dataclasses.dataclass(frozen=True)
class Batch:
  """Prompts decoded together, and what came out."""

  prompts: list[list[int]]
  baseline: list[specjax.Completion]
  method: list[specjax.Completion]

  @property
  def outputs(self) -> list[list[int]]:
    """The method's tokens."""
    return [row.tokens for row in self.method]

  @property
  def differing(self) -> list[int]:
    """Rows whose outputs are not the baseline's."""
    pairs = zip(self.baseline, self.method)
    return [i for i, (a, b) in enumerate(pairs) if a.tokens != b.tokens]


@dataclasses.dataclass(frozen=True)
class Difference:
  """A row whose output is not the baseline's; positions count output tokens from 0."""

  prompt_tokens: int
  first_difference: int
  flips: int  # emitted tokens that are not the target's argmax
  largest_gap: float  # best logit less the emitted token's
  certified: bool  # every emitted token is the argmax or within a near-tie


def run(config, workdir: Path) -> None:
  """Decodes config.num_prompts prompts (0: all) both ways, compares and certifies."""
  chosen = questions.select(questions.load(config.prompts), config.num_prompts, 'all')
  model = specjax.load(config.target)
  parsed = methods.parse({'method': config.method}, 0.0, model)
  method = parsed['method']
  ids = sorted((questions.token_ids(model, p.turns[:1]) for p in chosen), key=len)
  size = config.batch_size
  groups = [ids[start : start + size] for start in range(0, len(ids), size)]
  batches = [
    _decode(model, method, group, config.max_new_tokens)
    for group in progress.track(groups, 'decode', rich.console.Console())
  ]
  floor = _floor(model, batches, method.drafter.num_draft + 1, config.floor_positions)
  differences = [
    difference
    for batch in batches
    if batch.differing
    for difference in examine(model, batch, floor.eps)
  ]
  _write(_report(batches, differences, floor), model.label, workdir)


def _decode(model: Model, method: Method, ids: list[list[int]], max_new: int) -> Batch:
  decode = lambda **how: specjax.decode(model, ids, max_new_tokens=max_new, **how)
  ours = decode(
    drafter=method.drafter, verifier=method.verifier, drafter_params=method.params
  )
  return Batch(ids, decode(), ours)


def _floor(model: Model, batches: Sequence[Batch], width: int, positions: int):
  """eps, on batches evenly spread over all lengths with about `positions` tokens."""
  mean = sum(len(output) for b in batches for output in b.outputs) / len(batches)
  chosen = np.linspace(
    0, len(batches) - 1, min(len(batches), int(positions / mean) + 1)
  )
  floors = [
    teacher_forcing.floor(model.target, model.params, b.prompts, b.outputs, width)
    for b in (batches[int(i)] for i in chosen)
  ]
  eps = max(floor.eps for floor in floors)
  return teacher_forcing.Floor(eps, sum(floor.positions for floor in floors))


def examine(model: Model, batch: Batch, eps: float) -> list[Difference]:
  """Teacher-forces the method's outputs; a `Difference` for each row that has one."""
  forced = teacher_forcing.certify(
    model.target, model.params, batch.prompts, batch.outputs
  )
  return [
    Difference(
      prompt_tokens=len(batch.prompts[row]),
      first_difference=_first_difference(batch, row),
      flips=int(np.sum(forced[row].best != batch.outputs[row])),
      largest_gap=float(forced[row].gap.max()),
      certified=bool(np.all(forced[row].gap <= 2 * eps)),
    )
    for row in batch.differing
  ]


def _first_difference(batch: Batch, row: int) -> int:
  where = stats.first_difference(batch.method[row].tokens, batch.baseline[row].tokens)
  assert where is not None
  return where


def _report(batches, differences: Sequence[Difference], floor) -> dict:
  rows = [row for batch in batches for row in batch.method]
  tokens = sum(len(row.tokens) for row in rows)
  flips = sum(difference.flips for difference in differences)
  return {
    'prompts': len(rows),
    'tokens': tokens,
    'accepted': sum(row.accepted for row in rows),
    'rows_identical': len(rows) - len(differences),
    'rows_differing': len(differences),
    'all_certified': all(difference.certified for difference in differences),
    'flips': flips,
    'flips_per_10k': 1e4 * flips / tokens,
    'eps': floor.eps,
    'eps_positions': floor.positions,
    'differences': [dataclasses.asdict(difference) for difference in differences],
  }


def _write(report: dict, label: str, workdir: Path) -> None:
  rundir.write_json(workdir / 'identity.json', report)
  shown = table.Table('', label, box=box.MARKDOWN)
  for name, value in report.items():
    if name != 'differences':
      shown.add_row(name, f'{value:.3g}' if isinstance(value, float) else str(value))
  rich.print(shown)
  with rundir.opened(workdir / 'table.md', 'w') as file:
    rich.print(shown, file=file)
