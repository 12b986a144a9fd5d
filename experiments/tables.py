"""The tables of a comparison: on screen, and as table.md and table.csv.

Bold, and dim or with a trailing ~ where there are no colours: see `notes`.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import rich.box
import rich.table
import rich.text

from experiments import rundir

AGAIN = 'baseline_again'
DEGENERATE = 0.1  # a larger share of degenerate prompts is warned about
# Column -> field of methods.json or summary.json, and how it is written; a field
# of a field has a dot.
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
  'from prompt': ('accepted_from.prompt', '.0%'),
  'from output': ('accepted_from.output', '.0%'),
  'compile s': ('compile_s', '.1f'),
}
CERTAINTY = {
  'method': ('method', ''),
  'speed-up, repeats': ('speedup_ci95_repeats', '.2f'),
  'p (Holm)': ('p_holm', '.2g'),
  'tau interval': ('mean_accepted_length_ci95', '.2f'),
  'ITL p50': ('itl_p50_ms', '.1f'),
  'ITL p99': ('itl_p99_ms', '.1f'),
  'TPOT p50': ('tpot_p50_ms', '.1f'),
  'TPOT p99': ('tpot_p99_ms', '.1f'),
}


class Cell(NamedTuple):
  """A number as it is written, and how it is set."""

  text: str
  best: bool = False  # bold
  noise: bool = False  # greyed


class Table(NamedTuple):
  """Cells, before they are laid out for a screen or a file."""

  title: str
  header: list[str]
  rows: list[list[Cell]]


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
  """Prints the tables."""
  for note in notes(label, about, summary):
    console.print(note, highlight=False, markup=False)
  for title, header, rows in tables(about, summary):
    table = rich.table.Table(
      title=title, box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column(header[0], no_wrap=True)
    for name in header[1:]:
      broken = name.replace(' ', '\n', 1)
      table.add_column(broken, justify='right', overflow='fold')
    for cells in rows:
      table.add_row(*map(_styled, cells))
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
  if any(row.get('best') is not None for row in summary):
    lines.append(
      '[a, b]: 95% interval over questions. Bold: lossless drafters not worse than the '
      'fastest of them and the baseline (5%, Holm-adjusted; oracles left out).'
    )
  again = aa_ratio(summary)
  if again is not None:
    lines.append(
      f'A/A: the baseline against itself is {again:.3f}x, so differences up '
      f'to {abs(again - 1):.1%} are noise: those are dim, or marked with ~.'
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


def aa_ratio(summary: Sequence[dict], category: str = 'all') -> float | None:
  """The speed-up of the baseline against itself; None without that row."""
  for row in summary:
    if (row['method'], row['category']) == (AGAIN, category):
      return row['speedup']
  return None


def tables(about: Mapping[str, dict], summary: Sequence[dict]) -> list[Table]:
  """The results, what they are made of, how sure they are, and speed-ups by task."""
  full = [about[row['method']] | row for row in summary]
  full = [row | {'noise': _is_noise(row, full)} for row in full]
  return [
    _by_method('Results', MAIN, full),
    _by_method('Behind the speed-up', DETAILS, full),
    _by_method('95% intervals, and milliseconds between tokens', CERTAINTY, full),
    _by_position(full),
    _by_task('Speed-up by task', 'speedup', full),
    _by_task(
      'Speed-up by task, prompts that are not repetitive', 'speedup_nondegenerate', full
    ),
    _by_task('Measured / predicted speed-up by task', 'measured_over_predicted', full),
  ]


def _by_method(title: str, columns: Mapping[str, tuple], full: list[dict]) -> Table:
  rows = [[_cell(row, *field) for field in columns.values()] for row in _overall(full)]
  return Table(title, list(columns), rows)


def _by_position(full: list[dict]) -> Table:
  """Acceptance drifts with length (item 5)."""
  places = max((row['tau_by_position'] for row in _overall(full)), key=len)
  columns = {place: (f'tau_by_position.{place}', '.2f') for place in places}
  return _by_method(
    'tau by output position', {'method': ('method', '')} | columns, full
  )


def _by_task(title: str, field: str, full: list[dict]) -> Table:
  tasks: dict[str, list[dict]] = {}
  for row in full:
    tasks.setdefault(row['category'], [])
    if row['against'] != row['method']:
      tasks[row['category']].append(row)
  names = [row['method'] for row in tasks['all']]
  cells = [
    [Cell(task), *(_cell(row, field, '.2f', interval=False) for row in rows)]
    for task, rows in tasks.items()
  ]
  return Table(title, ['task', *names], cells)


def _overall(summary: Sequence[dict]) -> list[dict]:
  return [row for row in summary if row['category'] == 'all']


def _cell(row: Mapping, field: str, style: str, interval: bool = True) -> Cell:
  """A field's value; a speed-up's has its marks, and its interval if that is wanted."""
  value: Any = row
  for name in field.split('.'):
    value = None if value is None else value.get(name)
  text = _written(value, style)
  if field != 'speedup':
    return Cell(text)
  if interval and row['speedup_ci95']:
    text += f' {_written(row["speedup_ci95"], style)}'
  return Cell(text, bool(row['best']), row['noise'])


def _written(value, style: str) -> str:
  if value is None:
    return '-'
  if isinstance(value, tuple | list):
    return f'[{", ".join(format(end, style) for end in value)}]'
  return format(value, style)


def _is_noise(row: Mapping, full: Sequence[dict]) -> bool:
  """Whether a method differs from its baseline by no more than that from itself."""
  again = aa_ratio(full, row['category'])
  if again is None or row['against'] == row['method']:
    return False
  return abs(row['speedup'] - 1) <= abs(again - 1)


def _styled(cell: Cell) -> rich.text.Text:
  """A cell on screen."""
  style = ' '.join(name for name, on in zip(('bold', 'dim'), cell[1:]) if on)
  return rich.text.Text(cell.text, style)


def _marked(cell: Cell) -> str:
  """A cell in a file."""
  text = f'**{cell.text}**' if cell.best else cell.text
  return f'{text} ~' if cell.noise else text


def _markdown(table: Table) -> str:
  rule = ['---', *['---:'] * (len(table.header) - 1)]
  rows = [table.header, rule, *([_marked(cell) for cell in row] for row in table.rows)]
  return '\n'.join(f'| {" | ".join(cells)} |' for cells in rows)
