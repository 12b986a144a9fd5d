"""The figures of a run, as PDF and PNG in its plots/.

A comparison draws speed-ups by task, acceptance by depth and tokens per round, and tau
and speed-up against draft length and temperature if methods differ in those, and static
trees; step_cost draws the price of a target call, tree_choice the fastest tree. A
finished run is drawn again from its files with

  python -m experiments.figures RUN
"""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import app

from experiments import resume


def main(argv: list[str]) -> None:
  if len(argv) != 2:
    sys.exit('usage: python -m experiments.figures RUN')
  try:
    redraw(Path(argv[1]))
  except (ValueError, OSError) as error:
    sys.exit(str(error))


def redraw(run: Path) -> None:
  """Draws a finished run from its files.

  Raises:
    ValueError: it has not finished, or there is nothing to draw.
  """
  if not (run / 'done').exists():
    raise ValueError(f'{run} holds no finished run: there is no `done`')
  if (run / 'step_cost.json').exists():
    write_costs(run, json.loads((run / 'step_cost.json').read_text())['rows'])
  elif (run / 'tree_choice.json').exists():
    fastest = json.loads((run / 'tree_choice.json').read_text())['fastest']
    write_tree(run, fastest['paths'], fastest['accepted'])
  elif (run / 'summary.json').exists():
    about = json.loads((run / 'methods.json').read_text())
    summary = json.loads((run / 'summary.json').read_text())['rows']
    write(run, about, summary, resume.read(run / 'results.jsonl'))
  else:
    raise ValueError(f'{run} holds no comparison, step_cost.json or tree_choice.json')


def write(
  workdir: Path,
  about: Mapping[str, dict],
  summary: Sequence[dict],
  rows: Sequence[dict],
) -> None:
  """Draws a comparison.

  Args:
    workdir: of the run; gets plots/.
    about: methods.json.
    summary: rows of summary.json.
    rows: results.jsonl.
  """
  # Late: matplotlib is slow.
  from experiments.plots import acceptance, speedups, sweeps, tree

  figures = {
    'speedup_by_task': speedups.by_task(about, summary),
    'draft_length': sweeps.sweep(about, summary, 'num_draft'),
    'temperature': sweeps.sweep(about, summary, 'temperature'),
    'acceptance_by_depth': acceptance.by_depth(about, summary),
    'tokens_per_round': acceptance.per_round(about, summary, rows),
  }
  _save(workdir, figures | tree.by_method(about, rows))


def write_costs(workdir: Path, rows: Sequence[Mapping]) -> None:
  """Draws rows of step_cost.json."""
  from experiments.plots import costs  # late: matplotlib is slow

  _save(workdir, {'step_cost': costs.step_cost(rows)})


def write_tree(
  workdir: Path, paths: Sequence[Sequence[int]], shares: Sequence[float]
) -> None:
  """Draws a static tree with the share of drafts that accept each node."""
  from experiments.plots import tree  # late: matplotlib is slow

  _save(workdir, {'tree': tree.drawn([tuple(path) for path in paths], shares)})


def _save(workdir: Path, figures: Mapping[str, Any]) -> None:
  from experiments.plots import style

  for library in 'matplotlib', 'fontTools':  # absl lets every glyph be told
    logging.getLogger(library).setLevel(logging.WARNING)
  (workdir / 'plots').mkdir(exist_ok=True)
  for name, figure in figures.items():
    if figure is not None:
      style.save(figure, workdir / 'plots' / name)


if __name__ == '__main__':
  app.run(main)
