"""What a killed comparison left behind: whole groups are kept, the rest runs again.

A group is one batch of prompts, repeat and turn; its rows are appended together, but a
kill may come between two files or inside a line. So a group counts as done if all its
rows stand in all its files; of the others every trace is removed.
"""

import collections
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from experiments import records, rundir


def left(files: Sequence[Path], groups: Sequence, keys: Sequence[list[tuple]]) -> list:
  """The groups that are still to run; the files hold the rows of the others alone.

  Args:
    files: JSONL files with one row a key.
    groups: in the order they run.
    keys: of each group's rows, see `records.key`.
  """
  rows = {file: _whole_lines(file) for file in files}
  counts = [collections.Counter(map(records.key, found)) for found in rows.values()]
  done = [all(count[k] == 1 for count in counts for k in group) for group in keys]
  kept = {k for group, whole in zip(keys, done) if whole for k in group}
  for file, found in rows.items():
    _replace(file, [row for row in found if records.key(row) in kept])
  return [group for group, whole in zip(groups, done) if not whole]


def mend(file: Path) -> None:
  """Removes a last line that was cut off."""
  _replace(file, _whole_lines(file))


def read(file: Path) -> list[dict]:
  """The rows of a JSONL file; [] if there is none."""
  if not file.exists():
    return []
  return [json.loads(line) for line in file.read_text('utf-8').splitlines()]


def stored(file: Path) -> dict:
  """What a JSON file holds; {} if there is none."""
  return json.loads(file.read_text('utf-8')) if file.exists() else {}


def _whole_lines(file: Path) -> list[dict]:
  """Its rows, without a last line that was cut off."""
  lines = file.read_bytes().split(b'\n') if file.exists() else [b'']
  return [json.loads(line) for line in lines[:-1]]


def _replace(file: Path, rows: Iterable[dict]) -> None:
  """All at once: a kill leaves the old file or the new one."""
  beside = file.with_suffix('.new')
  beside.unlink(missing_ok=True)
  rundir.append_lines(beside, rows)
  os.replace(beside, file)
