"""Do two runs of one comparison agree, row by row?

  python -m experiments.agree RUN RUN

Speed-ups r1 and r2 of a row, with standard errors s1 and s2 over repeats, agree where
|log r1 - log r2| < 1.96 sqrt(s1^2 + s2^2). If nothing but the machine's noise stands
between the runs, some 19 of 20 rows do, given errors from many repeats; with three
repeats it is fewer. Whether tau is the same is shown. Ends with 1 if fewer than 19 of
20 agree. That both runs had the same config is for you to see to.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import rich.console
import rich.table
from absl import app

ENOUGH = 0.95  # of the rows
NORMAL = 1.96


def main(argv: list[str]) -> None:
  if len(argv) != 3:
    sys.exit('usage: python -m experiments.agree RUN RUN')
  try:
    rows = compare(*(_summary(Path(run)) for run in argv[1:]))
  except (ValueError, OSError) as error:
    sys.exit(str(error))
  sys.exit(0 if show(rich.console.Console(), rows) else 1)


def compare(first: Mapping[tuple, dict], second: Mapping[tuple, dict]) -> list[dict]:
  """A row per method and category that both runs have a speed-up of.

  Raises:
    ValueError: they hold other rows, or a run had too few repeats for an error.
  """
  if first.keys() != second.keys():
    other = sorted(first.keys() ^ second.keys())
    raise ValueError(f'the runs compare different things; not in both: {other[:5]}')
  rows = []
  for (method, category), one in first.items():
    two = second[method, category]
    if 'speedup_log_se_repeats' not in one:
      continue  # a baseline, whose speed-up is 1
    errors = [row['speedup_log_se_repeats'] for row in (one, two)]
    if None in errors:
      raise ValueError(f'{method} has no error over repeats: run at least 2 of them')
    apart = abs(math.log(one['speedup'] / two['speedup']))
    rows.append(
      {
        'method': method,
        'category': category,
        'first': one['speedup'],
        'second': two['speedup'],
        'apart': apart,
        'allowed': NORMAL * math.hypot(*errors),
        'same_tau': one['mean_accepted_length'] == two['mean_accepted_length'],
      }
    )
  return rows


def show(console: rich.console.Console, rows: Sequence[dict]) -> bool:
  """Prints the rows; do enough of them agree?"""
  table = rich.table.Table(box=None, padding=(0, 1))  # within 80 columns
  for name in ('method', 'category'):
    table.add_column(name)
  for name in ('first', 'second', 'apart', 'allowed', 'agree', 'tau'):
    table.add_column(name, justify='right')
  for row in rows:
    table.add_row(
      row['method'],
      row['category'],
      *(f'{row[name]:.3f}' for name in ('first', 'second', 'apart', 'allowed')),
      'yes' if row['apart'] < row['allowed'] else 'NO',
      'same' if row['same_tau'] else 'other',
    )
  console.print(table)
  agree = sum(row['apart'] < row['allowed'] for row in rows)
  console.print(f'{agree} of {len(rows)} rows agree', highlight=False)
  return agree >= ENOUGH * len(rows)


def _summary(run: Path) -> dict[tuple[str, str], dict]:
  """Rows of a finished run's summary, by method and category."""
  if not (run / 'done').exists():
    raise ValueError(f'{run} holds no finished run: there is no `done`')
  rows = json.loads((run / 'summary.json').read_text())['rows']
  return {(row['method'], row['category']): row for row in rows}


if __name__ == '__main__':
  app.run(main)
