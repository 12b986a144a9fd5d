"""The best static tree for measured acceptance rates, on the host.

Source: arXiv 2402.12374 (Sequoia), section 3: dynamic programming over nodes, then the
number of nodes and the depth of the highest speed.

  rates .6 .2 at every depth, 3 nodes:  0 - 00 - 000     1 + .6 + .36 + .216 tokens
  the same, at most 2 deep:             0 - 00 and 1     1 + .6 + .36 + .2
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from specjax.trees import expected, shapes
from specjax.types import Tree


def best_trees(rates: ArrayLike, max_nodes: int, max_depth: int) -> list[Tree]:
  """For 0, 1, .. max_nodes the best tree of at most so many nodes.

  Exact, by dynamic programming over the nodes given to each child, from the deepest
  generation up: the best children of ranks r and above with n nodes are the best
  subtree of y nodes at rank r beside the best of ranks above r with n - y. Any rates
  will do, rising ones too; a node that adds nothing is left out.

  Args:
    rates: see `expected.path_chances`; best by `expected.expected_tokens`.
    max_depth: of every tree.
  """
  table = expected.by_depth(rates, max_depth)
  subtree = np.minimum(np.arange(max_nodes + 1), 1.0)  # a node alone, with n to spend
  splits: list[np.ndarray] = []
  for depth in reversed(range(max_depth)):
    children, split = _best_children(table[depth], subtree)
    splits.insert(0, split)
    subtree = np.concatenate([[0.0], 1 + children[:-1]])
  return [shapes.from_paths(_grown(splits, n, ())) for n in range(max_nodes + 1)]


def _best_children(
  rates: np.ndarray, subtree: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """The best children of one node, from what their subtrees give by their nodes.

  Returns:
    What n nodes give, float[N + 1]; and int[R, N + 1]: of n nodes left for ranks r and
    above, how many go to rank r (0: there is no such child).
  """
  left = np.subtract.outer(np.arange(len(subtree)), np.arange(len(subtree)))
  total = np.zeros(len(subtree))
  split: list[np.ndarray] = []
  for rate in rates[::-1]:
    given = np.where(left >= 0, rate * subtree + total[left], -np.inf)
    given[:, 0] = 0.0  # no child of this rank: none of a higher one either
    split.insert(0, np.argmax(given, axis=1))
    total = np.max(given, axis=1)
  return total, np.array(split)


def _grown(
  splits: Sequence[np.ndarray], nodes: int, path: shapes.Path
) -> Iterator[shapes.Path]:
  """Paths of the best tree below a node, with so many nodes to spend."""
  if len(path) == len(splits):
    return
  for rank, split in enumerate(splits[len(path)]):
    if split[nodes] == 0:
      return
    yield (*path, rank)
    yield from _grown(splits, split[nodes] - 1, (*path, rank))
    nodes -= split[nodes]


def fastest(
  rates: ArrayLike,
  verify_s: Sequence[float],
  draft_s: float = 0.0,
  undrafted: float = 0.0,
  copies: bool = False,
) -> Tree:
  """Of the best trees of any depth and number of nodes the fastest.

  By `expected.tokens_per_second`, whose arguments it takes: the rates bound the depth
  (if they tell depths apart), verify_s the number of nodes.
  """
  most = len(verify_s) - 1
  deepest = min(len(np.asarray(rates)), most) if np.ndim(rates) == 2 else most
  found = [t for d in range(deepest + 1) for t in best_trees(rates, most, d)]
  cost = verify_s, draft_s, undrafted, copies
  speed = lambda tree: expected.tokens_per_second(tree, rates, *cost)
  return max(dict.fromkeys(found), key=speed)
