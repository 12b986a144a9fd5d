"""Where drafts fail: acceptance by depth, and how many tokens a round gives."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import figure, ticker

from experiments.plots import speedups, style

DEPTH = 'depth in the draft (tokens)'
OFFERED = 'accepted, of drafts\nthat deep (%)'
GIVEN = 'accepted, if the one\nbefore was (%)'
ABREAST = 3  # histograms in a row
NAME = 26  # characters of a line above a histogram


@style.styled
def by_depth(
  about: Mapping[str, dict], summary: Sequence[dict]
) -> figure.Figure | None:
  """Unconditional and conditional acceptance, a line a method.

  Args:
    about: methods.json.
    summary: rows of summary.json.
  """
  found = {
    row['method']: row['per_position_acceptance']
    for row in summary
    if row['category'] == 'all' and set(row['per_position_acceptance']) - {None}
  }
  if not found:
    return None
  drawn, (panels,) = style.new(style.DOUBLE, 2.1, columns=2, sharey=True)
  looks, handles = style.looks(speedups.compared(about)), []
  for axes, label in zip(panels, (OFFERED, GIVEN)):
    for name, shares in found.items():
      ys = conditional(shares) if label == GIVEN else shares
      percent = [np.nan if y is None else 100 * y for y in ys]
      depths = range(1, len(ys) + 1)
      handles += axes.plot(depths, percent, **looks[name], label=name)
    axes.set(xlabel=DEPTH, ylabel=label)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_tick_params(labelleft=True)
  panels[0].set_ylim(bottom=-2)  # of both
  style.legend(drawn, handles[: len(found)])
  return drawn


def conditional(shares: Sequence[float | None]) -> list[float | None]:
  """Each share over that of the depth before.

  Where all drafts are equally long this is the share of rounds that accepted depth d
  among those that accepted d - 1.
  """
  before = [1.0, *shares[:-1]]
  return [a / b if a is not None and b else None for a, b in zip(shares, before)]


@style.styled
def per_round(
  about: Mapping[str, dict], summary: Sequence[dict], rows: Sequence[dict]
) -> figure.Figure | None:
  """How many rounds gave 1, 2, ... tokens: a histogram a method.

  Args:
    about: methods.json.
    summary: rows of summary.json.
    rows: results.jsonl.
  """
  names = [name for name, method in about.items() if method['num_draft'] > 0]
  if not names:
    return None
  tau = {
    row['method']: row['mean_accepted_length']
    for row in summary
    if row['category'] == 'all'
  }
  columns = min(ABREAST, len(names))
  lines = -(-len(names) // columns)
  width = style.SINGLE if columns == 1 else style.DOUBLE
  drawn, panels = style.new(
    width, 1.6 * lines + 0.2, lines, columns, sharex=True, sharey=True
  )
  for axes, name in zip(panels.flat, names):
    shares = round_shares(rows, name)
    axes.bar(range(1, len(shares) + 1), 100 * shares, color='#56B4E9', edgecolor='0.1')
    axes.axvline(tau[name], **style.REFERENCE | dict(linestyle='--', zorder=3))
    axes.set_title(f'{style.wrapped(name, NAME)}\ntau {tau[name]:.2f}')
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
    axes.xaxis.set_tick_params(labelbottom=True)
  deepest = max(about[name]['num_draft'] for name in names)
  panels[0, 0].set_xlim(0.4, deepest + 1.6)
  for axes in list(panels.flat)[len(names) :]:
    axes.remove()
  drawn.supxlabel('tokens per round (accepted drafts + 1)', fontsize=8)
  drawn.supylabel('share of rounds (%)', fontsize=8)
  return drawn


def round_shares(rows: Sequence[dict], name: str) -> np.ndarray:
  """Shares of a method's rounds that accepted 0, 1, .. K drafts."""
  counts = np.sum(
    [row['accepted_histogram'] for row in rows if row['method'] == name], axis=0
  )
  return counts / counts.sum()
