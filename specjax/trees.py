"""Who follows whom among drafted nodes."""

from specjax.types import Tree


def chain(num_nodes: int) -> Tree:
  """Each node follows the one before it: parents -1, 0, 1, ..."""
  return Tree(static=tuple(range(-1, num_nodes - 1)))


def is_chain(tree: Tree) -> bool:
  """Known at trace time; a chain needs no ancestor mask and no cache clean-up."""
  return tree.static is not None and tree == chain(len(tree.static))
