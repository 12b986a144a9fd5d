"""The tables of a comparison: on screen, and as table.md and table.csv."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import rich.table

AGAIN = 'baseline_again'
DEGENERATE = 0.1  # a larger share of degenerate prompts is warned about
COLUMNS = {
  'method': 'method',
  'T': 'temperature',
  'against': 'against',
  'speed-up': 'speedup',
  'end to end': 'end_to_end_speedup',
  'non-degenerate': 'speedup_nondegenerate',
  'predicted': 'predicted_speedup',
  'measured/predicted': 'measured_over_predicted',
  'tau': 'mean_accepted_length',
  'accepted': 'acceptance_rate',
  'tokens/s': 'tokens_per_second',
  'identical': 'identical_fraction',
}
FORMATS = {
  'temperature': '{:g}',
  'tokens_per_second': '{:.1f}',
  'acceptance_rate': '{:.0%}',
  'identical_fraction': '{:.0%}',
}


def write(
  workdir: Path, label: str, about: Mapping[str, dict], summary: Sequence[dict]
) -> None:
  """Writes table.md, and table.csv with every number of the summary."""
  parts = [
    *notes(label, about, summary),
    _markdown(list(COLUMNS), main_rows(about, summary)),
    'Speed-up by task:',
    _markdown(*task_rows(summary)),
  ]
  (workdir / 'table.md').write_text('\n\n'.join(parts) + '\n')
  fields = list(dict.fromkeys(name for row in summary for name in row))
  with (workdir / 'table.csv').open('w', newline='') as file:
    writer = csv.DictWriter(file, fields)
    writer.writeheader()
    writer.writerows(summary)


def show(
  console, label: str, about: Mapping[str, dict], summary: Sequence[dict]
) -> None:
  """Prints both tables; speed-ups inside the noise floor are dim."""
  for note in notes(label, about, summary):
    console.print(note, highlight=False, markup=False)
  floor = noise_floor(summary) or 0.0
  main = _table('', list(COLUMNS))
  overall = [row for row in summary if row['category'] == 'all']
  for row, cells in zip(overall, main_rows(about, summary)):
    inside = abs(row['speedup'] - 1) <= floor
    main.add_row(*cells, style='dim' if inside else None)
  console.print(main)
  header, body = task_rows(summary)
  by_task = _table('Speed-up by task', header)
  for cells in body:
    by_task.add_row(*cells)
  console.print(by_task)


def notes(label: str, about: Mapping[str, dict], summary: Sequence[dict]) -> list[str]:
  """What stands above the table."""
  lines = [f'Target: {label}.']
  floor = noise_floor(summary)
  if floor is not None:
    lines.append(
      f'Noise floor (A/A: the baseline against itself): {1 + floor:.3f}x or '
      f'{1 - floor:.3f}x are no difference.'
    )
  lines.append(
    'Speed-up: tokens per second of decoding, ratio of totals, against the baseline of '
    'the same temperature (column "against").'
  )
  first = summary[0]
  if first['n_degenerate'] > DEGENERATE * first['n_prompts']:
    lines.append(
      f'Warning: the baseline repeats itself on {first["n_degenerate"]} of '
      f'{first["n_prompts"]} prompts, and drafters that copy feed on that: see the '
      'column "non-degenerate".'
    )
  lossy = [name for name, method in about.items() if not method['lossless']]
  if lossy:
    lines.append(f'Not lossless, the output differs: {", ".join(lossy)}.')
  return lines


def noise_floor(summary: Sequence[dict]) -> float | None:
  """How far from 1 the A/A ratio is; None without the row."""
  again = [r for r in summary if (r['method'], r['category']) == (AGAIN, 'all')]
  return abs(again[0]['speedup'] - 1) if again else None


def main_rows(about: Mapping[str, dict], summary: Sequence[dict]) -> list[list[str]]:
  """Cells of the main table, a row per method."""
  return [
    [_cell(about[row['method']] | row, name) for name in COLUMNS.values()]
    for row in summary
    if row['category'] == 'all'
  ]


def task_rows(summary: Sequence[dict]) -> tuple[list[str], list[list[str]]]:
  """Header and cells of the table by task, a row per method."""
  tasks = list(dict.fromkeys(row['category'] for row in summary))
  names = list(dict.fromkeys(row['method'] for row in summary))
  by_key = {(row['method'], row['category']): row for row in summary}
  body = [[name, *(_cell(by_key[name, t], 'speedup') for t in tasks)] for name in names]
  return ['method', *tasks], body


def _cell(row: Mapping, name: str) -> str:
  value = row.get(name)
  if value is None:
    return '-'
  return value if isinstance(value, str) else FORMATS.get(name, '{:.2f}').format(value)


def _markdown(header: list[str], body: Sequence[Sequence[str]]) -> str:
  rule = ['---', *['---:'] * (len(header) - 1)]
  return '\n'.join(f'| {" | ".join(cells)} |' for cells in [header, rule, *body])


def _table(title: str, header: list[str]) -> rich.table.Table:
  table = rich.table.Table(title=title or None)
  for name in header:
    table.add_column(name, justify='left' if name == 'method' else 'right')
  return table
