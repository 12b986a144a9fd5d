"""Is what ships lossless, and is a drafter or verifier of your own?

The exact law in float64 beside the draws of the jitted code, in three parts, so that
little is compiled: every verifier on given laws and trees, every drafter's drafts with
one verifier, and pairs of both end to end, for at least two rounds. Each check has a
p-value, Holm-adjusted over all of them at a family-wise level of 0.1%, the distance
seen, and the smallest that would have been noticed (`experiments.auditing.evidence`).

  python -m experiments.main --config=configs/experiments/audit.py --workdir=DIR \
    [--config.drafter=package.module] [--config.verifier=package.module]

Writes audit.json ({"cells": [...]}) and table.md. A failure ends the command with
status 1 and says which check failed.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import rich
import rich.console
from rich import box, table

from experiments import progress, rundir
from experiments.auditing import decodes, drafters, evidence, examples, given, verifiers
from experiments.auditing.evidence import Cell
from specjax.testing import subjects
from specjax.testing.subjects import Subject

WIDTH = 160  # of table.md
TITLES = {
  verifiers.PART: 'Verifiers on given laws, by how nodes were chosen',
  drafters.PART: 'Drafters, by what was checked of their drafts',
  decodes.PART: 'End to end: texts, greedy rows and counts',
}
LEGEND = (
  'pass d: a law that is d away in total variation would have been noticed with '
  f'probability {evidence.POWER:.0%}, whatever its direction (accepted: a mean). pass: '
  'all rows have the one right text. lossy d: not exact by design, measured d away. '
  '-: not among the pairs, or refused.'
)
Job = Callable[[], list[Cell]]


def run(config, workdir: Path) -> None:
  """Audits the config's drafters and verifiers, or those that were asked for.

  Raises:
    ValueError: no such module; a check failed, or one of them could not be audited.
  """
  drafts = [examples.drafter(name) for name in _names(config.drafter, config.drafters)]
  rules = [
    subjects.verifier(name) for name in _names(config.verifier, config.verifiers)
  ]
  console = rich.console.Console()
  with ThreadPoolExecutor(2) as pool:  # compiles two at a time
    running = [pool.submit(job) for job in jobs(config, drafts, rules)]
    done = progress.track(running, 'audit', console)
    cells = [cell for future in done for cell in future.result()]
  rows = evidence.judged(cells)
  _write(rows, workdir, console)
  _raise_failures(rows, drafts, rules)


def _write(rows: Sequence[dict], workdir: Path, console: rich.console.Console) -> None:
  rundir.write_json(workdir / 'audit.json', {'cells': rows})
  matrices = [_matrix(rows, part) for part in TITLES if _of(rows, part)]
  notes = [LEGEND, *_refusals(rows)]
  for matrix in matrices:
    console.print(matrix, '')
  console.print(*notes, sep='\n', highlight=False, markup=False)
  with rundir.opened(workdir / 'table.md', 'w') as file:
    paper = rich.console.Console(file=file, width=WIDTH)
    for matrix in (*matrices, _list(rows)):
      matrix.box, matrix.padding, matrix.show_edge = box.MARKDOWN, (0, 1), True
      paper.print(matrix, '')
    paper.print(*notes, sep='\n', markup=False)


def _names(asked: str, shipped: Sequence[str]) -> list[str]:
  return [name.strip() for name in asked.split(',') if name.strip()] or list(shipped)


def jobs(config, drafts: Sequence[Subject], rules: Sequence[Subject]) -> list[Job]:
  """What is to be done, as functions that give cells.

  With a drafter alone the verifiers' own checks are left out, and the other way round.
  """
  rows, judge = config.rows, subjects.verifier(config.judge)
  found: list[Callable[[int], list[Cell]]] = []
  if config.verifier or not config.drafter:
    for kind in itertools.product(config.shapes, given.SIBLINGS):
      if kind != ('chain', 'distinct'):  # there are none
        for check in verifiers.outputs, verifiers.accepted:
          found.append(functools.partial(check, rules, *kind, rows.verifiers))
  if config.drafter or not config.verifier:
    found += [_attempt(drafters, x, judge, rows.drafters) for x in drafts]
  both = pairs(drafts, rules, config.partners)
  found += [_attempt(decodes, *pair, rows.decoding) for pair in both]
  first = len(found) * config.seed
  return [functools.partial(job, first + number) for number, job in enumerate(found)]


def _attempt(part, drafter: Subject, verifier: Subject, rows: int):
  """The part's checks, or a cell that says why they could not be made."""

  def attempt(seed: int) -> list[Cell]:
    try:
      return part.checks(drafter, verifier, rows, seed)
    except ValueError as error:
      cell = Cell(part.PART, drafter.name, verifier.name, '', None)
      return [dataclasses.replace(cell, problem=str(error))]

  return attempt


def pairs(
  drafts: Sequence[Subject], rules: Sequence[Subject], partners: int
) -> list[tuple[Subject, Subject]]:
  """Each drafter with `partners` verifiers, more if else one would be left out.

  5 drafters, 4 verifiers, 2 partners -> 0 1, 2 3, 0 1, 2 3, 0 1
  """
  width = min(max(partners, -(-len(rules) // len(drafts))), len(rules))
  return [
    (drafter, rules[(number * width + i) % len(rules)])
    for number, drafter in enumerate(drafts)
    for i in range(width)
  ]


def _of(rows: Sequence[dict], part: str) -> list[dict]:
  return [row for row in rows if row['part'] == part]


def _matrix(rows: Sequence[dict], part: str) -> table.Table:
  column = 'check' if part == drafters.PART else 'verifier'
  rows = _of(rows, part)
  names = list(dict.fromkeys(row[column] for row in rows if row[column]))
  shown = _table(TITLES[part], '', *names)
  for draft in dict.fromkeys(row['draft'] for row in rows):
    mine = [row for row in rows if row['draft'] == draft]
    cells = (_text([row for row in mine if row[column] == name]) for name in names)
    shown.add_row(draft, *cells)
  return shown


def _table(title: str, *columns: str) -> table.Table:
  shown = table.Table(title=title, title_justify='left', box=box.SIMPLE_HEAD)
  shown.padding, shown.show_edge = (0, 0), False
  for column in columns:
    shown.add_column(column, no_wrap=True)
  return shown


def _text(rows: Sequence[dict]) -> str:
  """The worst of some checks, with its distance; what passed, with the law's."""
  written = lambda number: f'{number:.3f}'.removeprefix('0')
  for status in 'FAIL', 'lossy':
    worst = [row['distance'] for row in rows if row['status'] == status]
    if worst:
      return f'{status} {written(max(worst))}'
  passed = [row for row in rows if row['status'] == 'pass']
  if not passed:
    return '-'
  law = [row['detectable'] for row in passed if row['df']]
  return f'pass {written(law[0])}' if law else 'pass'


def _list(rows: Sequence[dict]) -> table.Table:
  numbers = dict(rows='d', p_value='.2g', p_holm='.2g', distance='.4f')
  numbers['detectable'] = '.2g'
  names = 'part', 'draft', 'verifier', 'check', 'status'
  shown = _table('All checks', *names, *numbers)
  for row in rows:
    written = (format(row[x], how) if x in row else '-' for x, how in numbers.items())
    shown.add_row(*(row[name] for name in names), *written)
  return shown


def _refusals(rows: Sequence[dict]) -> list[str]:
  """What could not be checked: a line for each verifier and part."""
  refused: dict[tuple, list[dict]] = {}
  for row in rows:
    if row['status'] == 'not checked':
      refused.setdefault((row['verifier'], row['part']), []).append(row)
  lines = []
  for (verifier, _), found in refused.items():
    more = f' and {len(found) - 1} more' if len(found) > 1 else ''
    reason = found[0]['problem'].splitlines()[0]
    lines.append(f'Not checked: {verifier} with {found[0]["draft"]}{more}: {reason}')
  return lines


def _raise_failures(rows, drafts: Sequence[Subject], rules: Sequence[Subject]) -> None:
  failed = [_sentence(row) for row in rows if row['status'] == 'FAIL']
  for column, asked in (('draft', drafts), ('verifier', rules)):
    for subject, part in itertools.product(asked, TITLES):
      mine = [row for row in _of(rows, part) if row[column] == subject.name]
      if mine and all(row['status'] == 'not checked' for row in mine):
        failed.append(
          f'{subject.name} could not be audited ({part}): {mine[0]["problem"]}'
        )
  if failed:
    raise ValueError('\n'.join(['The audit failed.', *failed]))


def _sentence(row: dict) -> str:
  """draft_model with block, law: p = 3e-40, distance 0.04 (0.01 is noticed)."""
  where = f'{row["draft"]} with {row["verifier"]}, {row["check"]}'
  text = (
    f'{where}: p = {row["p_value"]:.2g} ({row["p_holm"]:.2g} adjusted), distance '
    f'{row["distance"]:.3f} in {row["rows"]} rows ({row["detectable"]:.3f} is noticed)'
  )
  return f'{text}; {row["problem"]}' if row['problem'] else text
