"""One look for all figures: a paper's column widths, and readable in grey.

A method keeps its colour, marker and dashes in all figures of a run; markers and dashes
alone tell 36 methods apart.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import figure

SINGLE, DOUBLE = 3.3, 6.8  # inches
# Okabe and Ito's, without the yellow that white paper swallows.
COLOURS = '#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#000000'
MARKERS = 'os^DvPX<>'
DASHES = '-', '--', '-.', ':'
REFERENCE = dict(color='0.25', linewidth=0.8, zorder=0.8)
BAND = dict(color='0.86', linewidth=0, zorder=0.5)
NOISE = 'baseline against itself'
NAME = 44  # characters of a line of a legend
RC = {
  'axes.axisbelow': True,
  'axes.grid': True,
  'axes.grid.axis': 'y',
  'axes.labelsize': 8,
  'axes.linewidth': 0.6,
  'axes.spines.right': False,
  'axes.spines.top': False,
  'axes.titlesize': 8,
  'font.size': 8,
  'grid.color': '0.9',
  'grid.linewidth': 0.5,
  'legend.fontsize': 8,
  'legend.frameon': False,
  'legend.handlelength': 3,
  'lines.linewidth': 1.2,
  'lines.markersize': 4.5,
  'pdf.fonttype': 42,
  'savefig.dpi': 200,
  'text.parse_math': False,
  'xtick.labelsize': 8,
  'ytick.labelsize': 8,
}
# A decorator for functions that draw or save.
styled = matplotlib.rc_context(RC)


def looks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
  """Arguments of a line for each of these names."""
  pick = lambda choices, i: choices[i % len(choices)]
  return {
    name: dict(
      color=pick(COLOURS, i), marker=pick(MARKERS, i), linestyle=pick(DASHES, i)
    )
    for i, name in enumerate(names)
  }


def new(width: float, height: float, rows: int = 1, columns: int = 1, **shared):
  """A figure and its axes as [rows][columns]; height is that of the axes alone."""
  made = figure.Figure(figsize=(width, height), layout='constrained')
  return made, made.subplots(rows, columns, squeeze=False, **shared)


def legend(drawn: figure.Figure, handles: Sequence[Any]) -> None:
  """Above the axes, in as many columns as fit; the figure grows by its height."""
  labels = [wrapped(handle.get_label(), NAME) for handle in handles]
  place = dict(loc='outside upper left', columnspacing=1.5, borderaxespad=0.2)
  for columns in range(len(handles), 0, -1):
    box = drawn.legend(handles, labels, ncols=columns, **place)
    extent = box.get_window_extent()
    if extent.width <= drawn.bbox.width or columns == 1:
      drawn.set_figheight(drawn.get_figheight() + extent.height / drawn.dpi)
      return
    box.remove()


def intervals(axes, xs: Sequence[float], ends: Sequence, look: Mapping) -> None:
  """A bar at x from low to high, where there is an interval."""
  known = [(x, *pair) for x, pair in zip(xs, ends) if pair is not None]
  if known:
    axes.vlines(*zip(*known), color=look['color'], linewidth=1.0)


def wrapped(name: str, width: int) -> str:
  """Lines of at most `width` characters, broken behind _, - and spaces if possible."""
  parts = rf'[^_\- ]{{0,{width - 1}}}[_\- ]|[^_\- ]{{1,{width}}}'
  lines = ['']
  for part in re.findall(parts, name):
    if len(lines[-1] + part) <= width:
      lines[-1] += part
    else:
      lines.append(part)
  return '\n'.join(line.rstrip(' ') for line in lines)


@styled
def save(drawn: figure.Figure, path: Path) -> None:
  """Writes path.pdf and path.png, the same bytes each time."""
  drawn.draw_without_rendering()
  drawn.set_layout_engine('none')  # it is laid out, and that is slow
  drawn.savefig(path.with_suffix('.pdf'), metadata={'CreationDate': None})
  drawn.savefig(path.with_suffix('.png'))
