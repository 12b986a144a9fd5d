"""Speed-ups by task, methods side by side."""

from collections.abc import Mapping, Sequence

from matplotlib import figure

from experiments import tables
from experiments.plots import style

LABEL = 'speed-up (× plain decoding)'
ABREAST = 0.8  # of the distance between tasks
NARROW = 8  # so many points fit into one column
LEVEL = 7  # names of so many tasks fit side by side
TASK = 13  # characters of a line of a task's name


def compared(about: Mapping[str, dict]) -> list[str]:
  """Methods that have a speed-up; the baseline against itself is drawn as a band."""
  names = (name for name, method in about.items() if method['against'] != name)
  return [name for name in names if name != tables.AGAIN]


@style.styled
def by_task(about: Mapping[str, dict], summary: Sequence[dict]) -> figure.Figure | None:
  """Points with 95% intervals over questions, and what is noise of the machine.

  Args:
    about: methods.json.
    summary: rows of summary.json.
  """
  names = compared(about)
  if not names:
    return None
  rows = {(row['method'], row['category']): row for row in summary}
  tasks = list(dict.fromkeys(row['category'] for row in summary))
  narrow = len(tasks) * len(names) <= NARROW and len(tasks) <= 3
  level = len(tasks) <= LEVEL  # else the names of tasks stand on end and need room
  drawn, ((axes,),) = style.new(
    style.SINGLE if narrow else style.DOUBLE, 2.4 if level else 3.2
  )
  handles = []
  for i, (name, look) in enumerate(style.looks(names).items()):
    shift = ((i + 0.5) / len(names) - 0.5) * ABREAST
    mine = [rows[name, task] for task in tasks]
    xs = [place + shift for place in range(len(tasks))]
    ys = [row['speedup'] for row in mine]
    handles += axes.plot(xs, ys, **look | dict(linestyle='none'), label=name)
    style.intervals(axes, xs, [row['speedup_ci95'] for row in mine], look)
  handles += _noise(axes, [tables.aa_ratio(summary, task) for task in tasks])
  axes.use_sticky_edges = False  # nothing that is drawn touches the frame
  axes.axhline(1, **style.REFERENCE)
  for place in range(1, len(tasks)):
    axes.axvline(
      place - 0.5, color='0.5' if place == 1 else '0.9', linewidth=0.5, zorder=0.6
    )
  axes.set(xlim=(-0.5, len(tasks) - 0.5), xlabel='task', ylabel=LABEL)
  axes.set_xticks(range(len(tasks)), [style.wrapped(task, TASK) for task in tasks])
  axes.tick_params('x', length=0)
  if not level:
    axes.tick_params('x', rotation=90)
  style.legend(drawn, handles)
  return drawn


def _noise(axes, again: Sequence[float | None]) -> list:
  """What lies as far from 1 as the baseline from itself, task by task."""
  known = [(i, abs(ratio - 1)) for i, ratio in enumerate(again) if ratio is not None]
  if not known:
    return []
  places, floors = zip(*known)
  return [
    axes.bar(
      places,
      [2 * floor for floor in floors],
      bottom=[1 - floor for floor in floors],
      width=1,
      label=style.NOISE,
      **style.BAND,
    )
  ]
