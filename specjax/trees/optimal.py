"""The best static tree for measured acceptance rates, on the host.

Source: arXiv 2402.12374 (Sequoia), section 3. The model: a node of rank r at depth d is
accepted with probability rates[d - 1][r], given that its parent was, whatever else the
tree holds. So a round gives 1 + sum over nodes of the product of rates on its path
tokens, the 1 being the target's own. Among deterministic or greedy candidates siblings
exclude each other, and the model is wrong only in taking depths to be independent.

  rates .6 .2 at every depth, 3 nodes:  chain 0 - 00 - 000         1 + .6 + .36 + .216
                                        0 - 00 and 1 beside them   1 + .6 + .36 + .2
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from specjax.trees import shapes, topology
from specjax.types import Tree


def acceptance_rates(tree: Tree, accepted: Sequence[int], rounds: int) -> np.ndarray:
  """Rates from counts of a static tree: of accepted parents, how many had the child.

  Nodes of the same depth and rank are pooled, so a rate is measured on the parents
  that had such a child in the tree. Ranks that no node has get 0.

  nodes 0 1 00 10, accepted 60 20 36 10 of 100 rounds -> .6 .2 and (36 + 10) / 80 0

  Args:
    accepted: for each node the rounds that accepted it (`Completion.node_accepted`).
    rounds: those that drafted.

  Returns:
    float[D, R].
  """
  found = shapes.paths(tree)
  reached = {(): rounds} | dict(zip(found, accepted, strict=True))
  ranks = max((path[-1] for path in found), default=-1) + 1
  taken, parents = np.zeros((2, topology.max_depth(tree), ranks))
  for path in found:
    at = len(path) - 1, path[-1]
    taken[at] += reached[path]
    parents[at] += reached[path[:-1]]
  return taken / np.maximum(parents, 1)


def path_chances(tree: Tree, rates: ArrayLike) -> list[float]:
  """How often each node of a static tree is accepted, of the rounds that draft it.

  Args:
    rates: float[D, R], or float[R] if they are the same at every depth.

  Raises:
    ValueError: the tree is deeper or wider than the rates tell.
  """
  table = _by_depth(rates, topology.max_depth(tree))
  reached: dict[shapes.Path, float] = {(): 1.0}
  for path in shapes.paths(tree):
    if path[-1] >= table.shape[1]:
      raise ValueError(
        f'node {path} has rank {path[-1]}, rates are given for {table.shape[1]} ranks'
      )
    reached[path] = reached[path[:-1]] * table[len(path) - 1, path[-1]]
  return list(reached.values())[1:]


def expected_tokens(tree: Tree, rates: ArrayLike) -> float:
  """Tokens of a round that drafts a static tree, the target's own included.

  See `path_chances`.
  """
  return float(1 + sum(path_chances(tree, rates)))


def best_trees(rates: ArrayLike, max_nodes: int, max_depth: int) -> list[Tree]:
  """For 0, 1, .. max_nodes the best tree of at most so many nodes.

  Exact, by dynamic programming over the nodes given to each child, from the deepest
  generation up: the best children of ranks r and above with n nodes are the best
  subtree of y nodes at rank r beside the best of ranks above r with n - y. Any rates
  will do, rising ones too; a node that adds nothing is left out.

  Args:
    rates: see `path_chances`.
    max_depth: of every tree.
  """
  table = _by_depth(rates, max_depth)
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


def tokens_per_second(
  tree: Tree,
  rates: ArrayLike,
  verify_s: Sequence[float],
  draft_s: float = 0.0,
  drafting: float = 1.0,
) -> float:
  """The predicted speed of a static tree.

  Args:
    rates: see `path_chances`.
    verify_s: seconds to score 1, 2, ... rows, that is 0, 1, ... nodes and the root.
    draft_s: seconds of one draft step; a round has one a depth.
    drafting: the share of rounds that draft. The others give one token and score one
      row, as where prompt lookup finds no match.

  Raises:
    ValueError: verify_s ends before this tree; see `path_chances`.
  """
  nodes = len(shapes.paths(tree))
  if nodes >= len(verify_s):
    raise ValueError(
      f'a tree of {nodes} nodes has {nodes + 1} rows to score, verify_s tells the time '
      f'of up to {len(verify_s)}: measure more'
    )
  tokens = drafting * expected_tokens(tree, rates) + 1 - drafting
  verify = drafting * verify_s[nodes] + (1 - drafting) * verify_s[0]
  return tokens / (topology.max_depth(tree) * draft_s + verify)


def fastest(
  rates: ArrayLike,
  verify_s: Sequence[float],
  draft_s: float = 0.0,
  drafting: float = 1.0,
) -> Tree:
  """The tree, of any depth and number of nodes, whose `tokens_per_second` is highest.

  Its arguments, too: the rates bound the depth (if they tell depths apart), verify_s
  the number of nodes.
  """
  most = len(verify_s) - 1
  deepest = min(len(np.asarray(rates)), most) if np.ndim(rates) == 2 else most
  cost = verify_s, draft_s, drafting
  speed = lambda tree: tokens_per_second(tree, rates, *cost)
  found = [t for d in range(deepest + 1) for t in best_trees(rates, most, d)]
  return max(found, key=speed)


def _by_depth(rates: ArrayLike, depth: int) -> np.ndarray:
  """float64[depth, R]."""
  table = np.asarray(rates, np.float64)
  if table.ndim == 1:
    table = np.tile(table, (depth, 1))
  if table.ndim != 2 or len(table) < depth:
    raise ValueError(
      f'rates must be [depth][rank] for {depth} depths, or one row for all of them; '
      f'got shape {table.shape}'
    )
  if not np.all((table >= 0) & (table <= 1)):
    raise ValueError(f'rates must be within 0 and 1: {table.min()} to {table.max()}')
  return table[:depth]
