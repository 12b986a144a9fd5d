"""What a static tree gives, from acceptance rates measured with another one.

A rate is the share of accepted parents whose child was accepted, by the child's depth
and rank: rates[d - 1][r]. The model of arXiv 2402.12374 (Sequoia), section 3: it is
the same whatever else the tree holds. So a round gives the target's own token, and for
each node one token with the product of the rates on its path.

  rates .6 .2 at every depth, nodes 0 1 00 -> 1 + .6 + .2 + .36 tokens
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from specjax.trees import shapes, topology
from specjax.types import Tree

LONGEST = 256  # tokens of a passage
RARE = 1e-3  # a passage that gets so far is left out


def acceptance_rates(tree: Tree, accepted: Sequence[int], rounds: int) -> np.ndarray:
  """Rates from counts of a static tree, float[D, R].

  Nodes of the same depth and rank are pooled, so a rate is measured on the parents
  that had such a child in the tree. Ranks that no node has get 0.

  nodes 0 1 00 10, accepted 60 20 36 10 of 100 rounds -> .6 .2 and (36 + 10) / 80 0

  Args:
    accepted: for each node the rounds that accepted it (`Completion.node_accepted`).
    rounds: those that drafted.
  """
  paths = shapes.paths(tree)
  reached = {(): rounds} | dict(zip(paths, accepted, strict=True))
  ranks = max((path[-1] for path in paths), default=-1) + 1
  taken, parents = np.zeros((2, topology.max_depth(tree), ranks))
  for path in paths:
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
  table = by_depth(rates, topology.max_depth(tree))
  reached: dict[shapes.Path, float] = {(): 1.0}
  for path in shapes.paths(tree):
    if path[-1] >= table.shape[1]:
      raise ValueError(
        f'node {path} has rank {path[-1]}, rates are given for {table.shape[1]} ranks'
      )
    reached[path] = reached[path[:-1]] * table[len(path) - 1, path[-1]]
  return list(reached.values())[1:]


def expected_tokens(tree: Tree, rates: ArrayLike) -> float:
  """Tokens of a round that drafts a static tree; see `path_chances`."""
  return float(1 + sum(path_chances(tree, rates)))


def copied_tokens(tree: Tree, rates: ArrayLike) -> float:
  """The same where drafts copy passages of the text, as prompt lookup's do.

  There rounds are not alike: a draft that was accepted whole ends inside a passage, and
  the next round goes on in it. So rates tell depths in the passage, not in the round:
  the rounds of a passage start at its depths 0, K + 1, 2 (K + 1), ... where K is how
  deep the tree's rank 0 goes, as long as that is accepted. Beyond the measured depths
  rates stay as they are on average over the deeper half of these.

  rates .5 .8 .9 .9 ... by depth, a chain of one: rounds start at depths 0, 2, 4, ... in
  1, .5 x .8, .4 x .9 x .9, ... of passages, and give 1.5, 1.9, 1.9, ... tokens

  Args, raises: as `path_chances`, of rates that were measured with a deep tree.
  """
  deep = topology.max_depth(tree)
  known = np.asarray(rates)
  table = by_depth(known, max(deep, 1 if known.ndim == 1 else len(known)))
  step = 1 + max((len(p) for p in shapes.paths(tree) if not any(p)), default=0)
  begun = np.cumprod([1.0, *table[:, 0]])
  half = len(table) // 2
  later = begun[half:-1] @ table[half:] / (begun[half:-1].sum() or 1.0)
  table = np.vstack([table, np.tile(later, (LONGEST, 1))])
  starts = np.arange(0, LONGEST, step)
  passages = np.cumprod([1.0, *table[:, 0]])[starts]
  starts, passages = starts[passages > RARE], passages[passages > RARE]
  tokens = [expected_tokens(tree, table[start : start + deep]) for start in starts]
  return float(passages @ tokens / passages.sum())


def tokens_per_second(
  tree: Tree,
  rates: ArrayLike,
  verify_s: Sequence[float],
  draft_s: float = 0.0,
  undrafted: float = 0.0,
  copies: bool = False,
) -> float:
  """The predicted speed of a static tree.

  Args:
    rates: see `path_chances`.
    verify_s: seconds to score 1, 2, ... rows, that is 0, 1, ... nodes and the root.
    draft_s: seconds of one draft step; a round has one a depth.
    undrafted: the share of tokens that come from rounds without a draft, which score
      one row. Where prompt lookup finds no match does not depend on the tree.
    copies: a draft goes on where the last one was accepted whole: see `copied_tokens`.

  Raises:
    ValueError: verify_s ends before this tree; see `path_chances`.
  """
  nodes = len(shapes.paths(tree))
  if nodes >= len(verify_s):
    raise ValueError(
      f'a tree of {nodes} nodes has {nodes + 1} rows to score, verify_s tells the time '
      f'of up to {len(verify_s)}: measure more'
    )
  tokens = (copied_tokens if copies else expected_tokens)(tree, rates)
  rounds = undrafted + (1 - undrafted) / tokens  # for each token
  drafting_s = topology.max_depth(tree) * draft_s
  verifying = undrafted * verify_s[0] + (1 - undrafted) / tokens * verify_s[nodes]
  return 1 / (rounds * drafting_s + verifying)


def by_depth(rates: ArrayLike, depth: int) -> np.ndarray:
  """Rates of so many depths, float64[depth, R].

  Raises:
    ValueError: they are for fewer depths, or not within 0 and 1.
  """
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
