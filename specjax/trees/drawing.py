"""A static tree as lines of text."""

from collections.abc import Sequence

from specjax.trees import shapes
from specjax.types import Tree


def as_text(tree: Tree, numbers: Sequence[float] | None = None) -> str:
  """A line a node, under its parent, elder siblings first; it shows the node's rank.

  Args:
    numbers: one for each node, in the nodes' order, say how often it was accepted.

  from_paths([(0,), (1,), (0, 0)]), numbers .6 .2 .36:

    root
    ├─ 0  0.60
    │  └─ 0  0.36
    └─ 1  0.20
  """
  paths = shapes.paths(tree)
  if numbers is not None and len(numbers) != len(paths):
    raise ValueError(f'{len(numbers)} numbers for a tree of {len(paths)} nodes')
  known = set(paths)
  lines = ['root']
  for node in sorted(range(len(paths)), key=lambda node: paths[node]):
    path = paths[node]
    on = [_has_younger(path[:depth], known) for depth in range(1, len(path) + 1)]
    bars = ''.join('│  ' if younger else '   ' for younger in on[:-1])
    branch = '├─' if on[-1] else '└─'
    number = '' if numbers is None else f'  {numbers[node]:.2f}'
    lines.append(f'{bars}{branch} {path[-1]}{number}')
  return '\n'.join(lines)


def _has_younger(path: shapes.Path, known: set[shapes.Path]) -> bool:
  return (*path[:-1], path[-1] + 1) in known
