"""Static trees, and how often each of their nodes was accepted."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colors, figure

from experiments.plots import style
from specjax import trees

DEPTH = 'depth in the draft (tokens)'
RANKS = 'siblings from left to right by rank'
SHARE = 'accepted, of drafts (%)'
Path = tuple[int, ...]


def by_method(
  about: Mapping[str, dict], rows: Sequence[dict]
) -> dict[str, figure.Figure]:
  """A drawing for each method that drafts a static tree.

  Args:
    about: methods.json.
    rows: results.jsonl.
  """
  found = {}
  for name, method in about.items():
    mine = [row for row in rows if row['method'] == name]
    if method['drafter'].get('tree') and 'node_accepted' in mine[0]:
      paths = trees.paths(trees.from_paths(method['drafter']['tree']))
      accepted = np.sum([row['node_accepted'] for row in mine], axis=0)
      drafts = sum(row['offered'][0] for row in mine)
      found[f'tree_{name}'] = drawn(paths, accepted / max(drafts, 1))
  return found


@style.styled
def drawn(paths: Sequence[Path], shares: Sequence[float]) -> figure.Figure:
  """Nodes under their parents, the darker the more often they were accepted.

  Args:
    paths: of a tree with at least one node.
    shares: of the drafts, for each node.
  """
  place = places(paths)
  deepest = max(map(len, paths))
  made, ((axes,),) = style.new(style.DOUBLE, max(1.7, 0.5 + 0.3 * deepest))
  for path in paths:
    ends = path[:-1], path
    axes.plot([place[p] for p in ends], [len(p) for p in ends], **style.REFERENCE)
  look = dict(cmap='Greys', edgecolors='0.1', linewidths=0.6, zorder=2, clip_on=False)
  dots = axes.scatter(
    [place[path] for path in paths],
    [len(path) for path in paths],
    s=22,
    c=[100 * share for share in shares],
    norm=colors.PowerNorm(0.5, 0, 100),
    **look,
  )
  made.colorbar(dots, label=SHARE, ticks=[0, 10, 50, 100])
  axes.set(xlabel=RANKS, ylabel=DEPTH)
  axes.set_xticks([])
  axes.set_yticks(range(deepest + 1))
  axes.invert_yaxis()
  return made


def places(paths: Sequence[Path]) -> dict[Path, float]:
  """Where each node stands from left to right: leaves side by side, parents above.

  (0,) (1,) (0, 0) (0, 1) -> 0.5 2 0 1, and the root () at 1.25
  """
  place: dict[Path, float] = {}
  children: dict[Path, list[Path]] = {}
  for path in sorted(paths):
    children.setdefault(path[:-1], []).append(path)
  leaves = [path for path in sorted(paths) if path not in children]
  place |= {path: float(index) for index, path in enumerate(leaves)}
  for path in sorted(children, key=len, reverse=True):
    below = [place[child] for child in children[path]]
    place[path] = (below[0] + below[-1]) / 2
  return place
