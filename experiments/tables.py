"""The tables of a comparison: on screen, and as table.md and table.csv."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import rich.box
import rich.table

from experiments import rundir

AGAIN = 'baseline_again'
DEGENERATE = 0.1  # a larger share of degenerate prompts is warned about
# Column -> field of methods.json or summary.json, and how it is written.
MAIN = {
  'method': ('method', ''),
  'T': ('temperature', 'g'),
  'speed-up': ('speedup', '.2f'),
  'end to end': ('end_to_end_speedup', '.2f'),
  'tau': ('mean_accepted_length', '.2f'),
  'accepted': ('acceptance_rate', '.0%'),
  'tokens/s': ('tokens_per_second', '.1f'),
  'identical': ('identical_fraction', '.0%'),
}
DETAILS = {
  'method': ('method', ''),
  'not repetitive': ('speedup_nondegenerate', '.2f'),
  'predicted': ('predicted_speedup', '.2f'),
  'of predicted': ('measured_over_predicted', '.2f'),
  'draft ms': ('draft_ms', '.1f'),
  'verify ms': ('verify_ms', '.1f'),
  'compile s': ('compile_s', '.1f'),
}


class Table(NamedTuple):
  """Cells, before they are laid out for a screen or a file."""

  title: str
  header: list[str]
  rows: list[list[str]]


def write(
  workdir: Path, label: str, about: Mapping[str, dict], summary: Sequence[dict]
) -> None:
  """Writes table.md, and table.csv with every number of the summary."""
  parts = notes(label, about, summary)
  for table in tables(about, summary):
    parts += [f'**{table.title}**', _markdown(table)]
  with rundir.opened(workdir / 'table.md', 'w') as file:
    file.write('\n\n'.join(parts) + '\n')
  fields = list(dict.fromkeys(name for row in summary for name in row))
  with rundir.opened(workdir / 'table.csv', 'w') as file:
    writer = csv.DictWriter(file, fields)
    writer.writeheader()
    writer.writerows(summary)


def show(
  console, label: str, about: Mapping[str, dict], summary: Sequence[dict]
) -> None:
  """Prints the tables; methods inside the noise floor are dim."""
  for note in notes(label, about, summary):
    console.print(note, highlight=False, markup=False)
  floor = abs((aa_ratio(summary) or 1.0) - 1)
  same = {r['method'] for r in _overall(summary) if abs(r['speedup'] - 1) <= floor}
  for title, header, rows in tables(about, summary):
    table = rich.table.Table(
      title=title, box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column(header[0], no_wrap=True)
    for name in header[1:]:
      broken = name.replace(' ', '\n', 1)
      table.add_column(broken, justify='right', overflow='fold')
    for cells in rows:
      table.add_row(*cells, style='dim' if cells[0] in same else None)
    console.print(table)


def notes(label: str, about: Mapping[str, dict], summary: Sequence[dict]) -> list[str]:
  """What stands above the tables: what they compare, and what to be careful with."""
  against: dict[str, list[str]] = {}
  for name, method in about.items():
    against.setdefault(method['against'], []).append(name)
  pairs = '; '.join(f'{", ".join(who)} against {base}' for base, who in against.items())
  lines = [
    f'Target: {label}. {summary[0]["n_prompts"]} prompts. Speed-up: tokens per second '
    f'of decoding, ratio of totals, at the same temperature: {pairs}.'
  ]
  again = aa_ratio(summary)
  if again is not None:
    lines.append(
      f'A/A: the baseline against itself is {again:.3f}x, so differences up '
      f'to {abs(again - 1):.1%} are noise.'
    )
  repetitive = [
    f'{row["method"]} repeats itself on {row["n_degenerate"]} of {row["n_prompts"]}'
    for row in _overall(summary)
    if row['method'] in against and row['n_degenerate'] > DEGENERATE * row['n_prompts']
  ]
  if repetitive:
    lines.append(
      f'Warning: {"; ".join(repetitive)} prompts, and drafters that copy feed on that: '
      'see the speed-up on those that are not repetitive.'
    )
  lossy = [name for name, method in about.items() if not method['lossless']]
  if lossy:
    lines.append(f'Not lossless, the output differs: {", ".join(lossy)}.')
  return lines


def aa_ratio(summary: Sequence[dict]) -> float | None:
  """The speed-up of the baseline against itself; None without that row."""
  return next((r['speedup'] for r in _overall(summary) if r['method'] == AGAIN), None)


def tables(about: Mapping[str, dict], summary: Sequence[dict]) -> list[Table]:
  """The results, what they are made of, and the speed-ups by task."""
  by_method: dict[str, dict[str, dict]] = {}
  for row in summary:
    by_method.setdefault(row['method'], {})[row['category']] = row
  full = [about[name] | rows['all'] for name, rows in by_method.items()]
  cells = lambda columns: [
    [_cell(row.get(name), style) for name, style in columns.values()] for row in full
  ]
  compared = [name for name, method in about.items() if method['against'] != name]
  by_task = lambda field: [
    [task, *(_cell(by_method[name][task].get(field), '.2f') for name in compared)]
    for task in dict.fromkeys(row['category'] for row in summary)
  ]
  return [
    Table('Results', list(MAIN), cells(MAIN)),
    Table('Behind the speed-up', list(DETAILS), cells(DETAILS)),
    Table('Speed-up by task', ['task', *compared], by_task('speedup')),
    Table(
      'Speed-up by task, prompts that are not repetitive',
      ['task', *compared],
      by_task('speedup_nondegenerate'),
    ),
    Table(
      'Measured / predicted speed-up by task',
      ['task', *compared],
      by_task('measured_over_predicted'),
    ),
  ]


def _overall(summary: Sequence[dict]) -> list[dict]:
  return [row for row in summary if row['category'] == 'all']


def _cell(value, style: str) -> str:
  return '-' if value is None else format(value, style)


def _markdown(table: Table) -> str:
  rule = ['---', *['---:'] * (len(table.header) - 1)]
  rows = [table.header, rule, *table.rows]
  return '\n'.join(f'| {" | ".join(cells)} |' for cells in rows)
