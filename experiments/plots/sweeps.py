"""tau and speed-up against the draft length or the temperature.

A line joins methods that differ in that alone. At temperature 0 all lossless verifiers
accept the same, so a greedy method is where the lines of the others begin.
"""

import json
from collections.abc import Mapping, Sequence

from matplotlib import figure

from experiments import tables
from experiments.plots import speedups, style

Line = list[tuple[float, dict]]  # x, and a row of summary.json
LABELS = {'num_draft': 'draft length K (tokens)', 'temperature': 'temperature T'}
TAU = 'tau (tokens per target call)'
PANELS = {'mean_accepted_length': TAU, 'speedup': speedups.LABEL}
SYMBOLS = {'temperature': 'T', 'drafter num_draft': 'K'}
TREE = 'drafter tree'  # a path list


@style.styled
def sweep(
  about: Mapping[str, dict], summary: Sequence[dict], varied: str
) -> figure.Figure | None:
  """Lines with 95% intervals over questions; None if nothing has two values.

  Args:
    about: methods.json.
    summary: rows of summary.json.
    varied: num_draft or temperature.
  """
  found = lines(about, summary, varied)
  if not found:
    return None
  drawn, (panels,) = style.new(style.DOUBLE, 2.3, columns=len(PANELS))
  handles = []
  for axes, (field, label) in zip(panels, PANELS.items()):
    for (name, line), look in zip(found.items(), style.looks(list(found)).values()):
      xs, rows = zip(*line)
      handles += axes.plot(xs, [row[field] for row in rows], **look, label=name)
      style.intervals(axes, xs, [row[f'{field}_ci95'] for row in rows], look)
    axes.axhline(1, **style.REFERENCE)
    axes.set(xlabel=LABELS[varied], ylabel=label)
    ticks = sorted({x for line in found.values() for x, _ in line})
    axes.set_xticks(ticks, [format(x, 'g') for x in ticks])
  handles = handles[: len(found)]
  again = tables.aa_ratio(summary)
  if again is not None:
    floor = abs(again - 1)
    band = panels[-1].axhspan(1 - floor, 1 + floor, label=style.NOISE, **style.BAND)
    handles.append(band)
  style.legend(drawn, handles)
  return drawn


def lines(
  about: Mapping[str, dict], summary: Sequence[dict], varied: str
) -> dict[str, Line]:
  """{what its methods share: points} of all lines with at least two values."""
  overall = {row['method']: row for row in summary if row['category'] == 'all'}
  settings: dict[str, dict] = {}
  points: dict[str, Line] = {}
  for name, method in about.items():
    if method['num_draft'] > 0:
      shared = _shared(method, varied)
      key = json.dumps(shared, sort_keys=True)
      settings[key] = shared
      points.setdefault(key, []).append((method[varied], overall[name]))
  if varied == 'temperature':
    points = _begun(points, settings)
  whole = {
    key: sorted(line, key=lambda point: point[0])
    for key, line in points.items()
    if len({x for x, _ in line}) > 1
  }
  labels = _labels([settings[key] for key in whole])
  return dict(zip(labels, whole.values()))


def _shared(method: Mapping, varied: str) -> dict:
  """All settings of a method but one; those listed by depth as the set of values.

  A tree stays as it is.
  """
  parts = {'drafter': method['drafter'], 'verifier': method['verifier']}
  flat = {f'{part} {name}': v for part in parts for name, v in parts[part].items()}
  flat['temperature'] = method['temperature']
  by_depth = lambda name, value: isinstance(value, list | tuple) and name != TREE
  return {
    name: sorted(set(value)) if by_depth(name, value) else value
    for name, value in flat.items()
    if name.removeprefix('drafter ') != varied
  }


def _begun(points: Mapping[str, Line], settings: Mapping[str, dict]) -> dict[str, Line]:
  """Lines of sampled methods, each begun by the greedy points of its drafter."""
  drafter = lambda key: {
    name: value for name, value in settings[key].items() if name.startswith('drafter ')
  }
  greedy = [key for key in points if settings[key]['verifier name'] == 'greedy']
  return {
    key: [
      p for start in greedy if drafter(start) == drafter(key) for p in points[start]
    ]
    + line
    for key, line in points.items()
    if key not in greedy
  }


def _labels(settings: Sequence[Mapping]) -> list[str]:
  """The drafter's name, and what tells the lines apart."""
  names = dict.fromkeys(name for shared in settings for name in shared)
  differs = [
    name
    for name in names
    if name != 'drafter name'
    and any(s.get(name) != settings[0].get(name) for s in settings)
  ]
  return [
    ', '.join([s['drafter name'], *(_said(n, s[n]) for n in differs if n in s)])
    for s in settings
  ]


def _said(name: str, value) -> str:
  if name == 'verifier name':
    return value
  if name == TREE:
    return f'{len(value)} nodes'
  return f'{SYMBOLS.get(name, name.split()[-1])} = {value}'
