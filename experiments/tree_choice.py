"""The fastest static tree, from what a wide one had accepted on dev and what rows cost.

Reads a finished comparison whose method `config.method` drafted a static tree
(`config.dev`, see tree_dev.py), and what rows cost on the same machine
(`config.costs`, row_cost.py). Predicted are plain decoding, the best chain, the best
tree of widths, `config.trees`, and the fastest tree of all (specjax.trees.fastest). Or,
where `config.test` names a finished comparison (tree_test.py), its methods with the
same drafter, beside what was measured there.

  python -m experiments.main --config=configs/experiments/tree_choice.py --workdir=DIR \
    --config.dev=RUN --config.costs=RUN [--config.test=RUN]

Writes tree_choice.json, table.md, tree.txt (the fastest tree) and plots/.
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import rich
import rich.console
from rich import box, table

from experiments import figures, repeats, resume, rundir, step_cost
from specjax import trees
from specjax.types import Tree

WIDTH = 120  # of table.md
# Header -> field of a row, and how it is written.
COLUMNS = {
  'tree': ('name', ''),
  'nodes': ('nodes', ''),
  'depth': ('depth', ''),
  'tau, predicted': ('predicted_tau', '.2f'),
  'tau': ('mean_accepted_length', '.2f'),
  'tokens/s, predicted': ('predicted_tokens_per_second', '.1f'),
  'tokens/s': ('tokens_per_second', '.1f'),
  'speed-up, predicted': ('predicted_speedup', '.2f'),
  'speed-up': ('speedup', '.2f'),
}
MEASURED = 'mean_accepted_length', 'tokens_per_second', 'speedup'


class Measured(NamedTuple):
  """What `trees.tokens_per_second` takes behind the tree."""

  rates: np.ndarray  # [depth][rank]
  verify_s: list[float]  # of 1, 2, ... rows
  draft_s: float  # of a draft step
  undrafted: float  # share of tokens that come from rounds without a draft
  copies: bool


def run(config, workdir: Path) -> None:
  """Predicts, shows the table and the fastest tree.

  Raises:
    ValueError: a run has not finished, or lacks what is to be read from it.
  """
  dev, costs = finished(config.dev, 'dev'), finished(config.costs, 'costs')
  ratios = row_costs(step_cost.load(costs / 'step_cost.json'))
  known = measured(dev, config.method, ratios, config.copies)
  fastest = trees.fastest(*known)
  named = {name: trees.from_paths(paths) for name, paths in config.trees.items()}
  chosen = candidates(known) | named | {'fastest': fastest}
  reached: dict[str, dict] = {}
  if config.test:
    drafter = methods_of(dev)[config.method]['drafter']['name']
    chosen, reached = of_run(finished(config.test, 'test'), drafter)
  rows = [
    predicted(name, tree, known) | {f: reached.get(name, {}).get(f) for f in MEASURED}
    for name, tree in chosen.items()
  ]
  write(workdir, known, rows, fastest)


def write(workdir: Path, known: Measured, rows: Sequence[dict], fastest: Tree) -> None:
  """Writes and shows what was found."""
  paths, chances = trees.paths(fastest), trees.path_chances(fastest, known.rates)
  numbers = {
    name: np.asarray(value).tolist() for name, value in known._asdict().items()
  }
  content = numbers | {'fastest': dict(paths=paths, accepted=chances), 'rows': rows}
  rundir.write_json(workdir / 'tree_choice.json', content)
  shown = _table(rows)
  rich.print(shown)
  with rundir.opened(workdir / 'table.md', 'w') as file:
    rich.console.Console(file=file, width=WIDTH).print(shown)
  drawing = f'tree={paths}\n\n{trees.as_text(fastest, chances)}\n'
  print(drawing)
  with rundir.opened(workdir / 'tree.txt', 'w') as file:
    file.write(drawing)
  if paths:
    figures.write_tree(workdir, paths, chances)


def finished(run: str, field: str) -> Path:
  """The directory of a finished run that a field of the config names."""
  if not run or not (Path(run) / 'done').exists():
    raise ValueError(f'config.{field} = {run!r} is no finished run: there is no `done`')
  return Path(run)


def row_costs(rows: Sequence[step_cost.Row]) -> np.ndarray:
  """Cost of 1, 2, .. T rows over that of one; linear between what was measured."""
  places = {(row.used, row.slots, row.batch) for row in rows}
  if len(places) > 1:
    raise ValueError(
      f'row costs of one place are wanted, (used, slots, batch): {places}'
    )
  windows, ratios = zip(*sorted((row.window, row.ratio_to_one) for row in rows))
  return np.interp(np.arange(1, windows[-1] + 1), windows, ratios)


def measured(dev: Path, method: str, ratios: np.ndarray, copies: bool) -> Measured:
  """What a comparison tells of a method, at the speed of its own baseline."""
  about, rows = methods_of(dev), resume.read(dev / 'results.jsonl')
  drafts = [r for r in resume.read(dev / 'phases.jsonl') if r['method'] == method]
  if not about.get(method, {}).get('drafter', {}).get('tree'):
    raise ValueError(f'{dev} has no {method!r} with a static tree, but {list(about)}')
  if not drafts:
    raise ValueError(f'{dev} has no timed rounds: run it with config.phase_prompts > 0')
  mine = [row for row in rows if row['method'] == method]
  base = repeats.per_question(rows, about[method]['against'])
  count = lambda field: np.sum([row[field] for row in mine], axis=0)
  drafting = count('offered')[0]
  tree = trees.from_paths(about[method]['drafter']['tree'])
  return Measured(
    rates=trees.acceptance_rates(tree, count('node_accepted'), drafting),
    verify_s=(ratios / repeats.speed(base)).tolist(),
    draft_s=statistics.fmean(r['draft_s'] for r in drafts) / trees.max_depth(tree),
    undrafted=float((count('target_calls') - drafting) / count('new_tokens')),
    copies=copies,
  )


def candidates(known: Measured) -> dict[str, Tree]:
  """Plain decoding, and the fastest by prediction of chains and of other widths."""
  speed = lambda widths: trees.tokens_per_second(trees.from_widths(widths), *known)
  depth, ranks = known.rates.shape
  every = list(width_lists(len(known.verify_s) - 1, depth, ranks))
  chains = [widths for widths in every if set(widths) <= {1}]
  wider = [widths for widths in every if not set(widths) <= {1}]
  return {
    'plain': trees.chain(0),
    'chain': trees.from_widths(max(chains, key=speed)),
    'widths': trees.from_widths(max(wider, key=speed, default=())),
  }


def width_lists(
  nodes: int, depth: int, ranks: int, parents: int = 1
) -> Iterator[tuple[int, ...]]:
  """The widths of all trees within the limits, below so many parents.

  3 nodes, 2 deep, 2 wide -> () (1,) (1, 1) (1, 2) (2,)
  """
  yield ()
  for width in range(1, min(ranks, nodes // parents) + 1 if depth else 1):
    level = parents * width
    for more in width_lists(nodes - level, depth - 1, ranks, level):
      yield (width, *more)


def methods_of(run: Path) -> dict[str, dict]:
  """What a comparison says of its methods."""
  return json.loads((run / 'methods.json').read_text())


def of_run(run: Path, drafter: str) -> tuple[dict[str, Tree], dict[str, dict]]:
  """Trees of plain decoding and of a drafter's methods, and what these reached."""
  chosen = {
    name: tree_of(method)
    for name, method in methods_of(run).items()
    if method['num_draft'] == 0 or method['drafter']['name'] == drafter
  }
  summary = json.loads((run / 'summary.json').read_text())['rows']
  overall = [row for row in summary if row['category'] == 'all']
  return chosen, {row['method']: row for row in overall}


def tree_of(method: Mapping) -> Tree:
  """The tree of an entry of methods.json; a chain where its drafter has none."""
  paths = method['drafter'].get('tree')
  return trees.from_paths(paths) if paths else trees.chain(method['num_draft'])


def predicted(name: str, tree: Tree, known: Measured) -> dict:
  """A row of the table: a tree, and what is expected of it."""
  of_a_round = trees.copied_tokens if known.copies else trees.expected_tokens
  tokens = of_a_round(tree, known.rates)
  speed = trees.tokens_per_second(tree, *known)
  return {
    'name': name,
    'paths': trees.paths(tree),
    'nodes': len(trees.paths(tree)),
    'depth': trees.max_depth(tree),
    'predicted_tau': 1 / (known.undrafted + (1 - known.undrafted) / tokens),
    'predicted_tokens_per_second': speed,
    'predicted_speedup': speed * known.verify_s[0],
  }


def _table(rows: Sequence[dict]) -> table.Table:
  shown = table.Table(*COLUMNS, box=box.MARKDOWN)
  for row in rows:
    shown.add_row(*(_written(row[name], style) for name, style in COLUMNS.values()))
  return shown


def _written(value, style: str) -> str:
  return '-' if value is None else format(value, style)
