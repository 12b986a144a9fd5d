"""How far a run is: a bar on a terminal, now and then a line elsewhere."""

import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich import console as rich_console
from rich import progress

T = TypeVar('T')
LINE_EVERY_S = 30.0


def track(jobs: Sequence[T], title: str, console: rich_console.Console) -> Iterator[T]:
  """Yields the jobs, and shows the time that the rest will take."""
  if not jobs:
    return
  if not console.is_terminal:
    yield from _lines(jobs, title, console)
    return
  columns = (
    progress.TextColumn('{task.description}'),
    progress.BarColumn(),
    progress.MofNCompleteColumn(),
    progress.TimeRemainingColumn(),
  )
  with progress.Progress(*columns, console=console, transient=True) as bar:
    yield from bar.track(jobs, description=title)


def _lines(jobs: Sequence[T], title: str, console) -> Iterator[T]:
  began = shown = time.monotonic()
  for number, job in enumerate(jobs):
    now = time.monotonic()
    if number and now - shown >= LINE_EVERY_S:
      left = (now - began) / number * (len(jobs) - number)
      console.print(f'{title} {number}/{len(jobs)}, {left:.0f} s left')
      shown = now
    yield job
