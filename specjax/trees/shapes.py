"""Static trees as path lists, and back.

Medusa's format (arXiv 2401.10774): a node's path holds its ancestors' ranks among their
siblings, then its own. Nodes stand by depth, then by path:

  (0,) (1,) (0, 0) (0, 1) (0, 1, 0)      root - 0 - 00
  parents -1 -1 0 0 3                         |   - 01 - 010
                                              - 1
"""

import itertools
from collections.abc import Iterable, Sequence

from specjax import checks
from specjax.types import Tree

Path = tuple[int, ...]


def from_paths(paths: Iterable[Sequence[int]]) -> Tree:
  """The static tree of paths in any order; none at all: a chain of no nodes.

  Raises:
    ValueError: a path is none, stands there twice, or lacks its parent or an elder
      sibling.
  """
  checked = [_checked(path) for path in paths]
  node: dict[Path, int] = {(): -1}
  parents: list[int] = []
  for path in sorted(checked, key=lambda path: (len(path), path)):
    if path in node:
      raise ValueError(f'the path {path} is there twice, () being the root')
    *above, rank = path
    elder = [(*above, rank - 1)] if rank else []
    for needed in [tuple(above), *elder]:
      if needed not in node:
        raise ValueError(f'the path {path} needs {needed}, which is missing: add it')
    node[path] = len(parents)
    parents.append(node[tuple(above)])
  return Tree(static=tuple(parents))


def _checked(path: Sequence[int]) -> Path:
  try:
    ranks = tuple(path)
  except TypeError:
    raise ValueError(f'a path is a sequence of ranks, (0, 1); got {path!r}') from None
  for rank in ranks:
    checks.whole(f'a rank of the path {ranks}', rank, 0)
  return ranks


def paths(tree: Tree) -> tuple[Path, ...]:
  """The path of each node of a static tree, in the nodes' order.

  parents -1 -1 0 0 3 -> (0,) (1,) (0, 0) (0, 1) (0, 1, 0)

  Raises:
    ValueError: the tree is grown, so its shape is not known.
  """
  if tree.static is None:
    raise ValueError('a grown tree has other paths in each row: ask for a static one')
  found: list[Path] = []
  for node, parent in enumerate(tree.static):
    above = found[parent] if parent >= 0 else ()
    found.append((*above, tree.static[:node].count(parent)))
  return tuple(found)


def from_widths(widths: Sequence[int]) -> Tree:
  """Every node at depth d has widths[d] children, the root being at depth 0.

  (2, 1) -> (0,) (1,) (0, 0) (1, 0);  (1, 1, 1) is a chain of three

  Raises:
    ValueError: a width below 1.
  """
  for depth, width in enumerate(widths):
    checks.whole(f'widths[{depth}]', width, 1)
  ranks = [range(width) for width in widths]
  depths = range(1, len(widths) + 1)
  return from_paths(p for depth in depths for p in itertools.product(*ranks[:depth]))
