"""Shapes of a drafted tree, and how an autoregressive drafter fills them.

A shape grows its tree depth by depth. The drafter is given to it as a function

  read(carry, tokens int32[B, n], tree, count) -> (logits float[B, count, V_q], carry)

that reads n nodes behind the text and says what follows the last `count` of them. Only
nodes with children are read, and at each depth all of them so far: a drafter that keeps
nothing of its nodes reads them again, one that does has read all but the last `count`.
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from specjax import checks, trees
from specjax.drafters import drawing
from specjax.drafters.dynamic_tree import DynamicTree
from specjax.types import Array, Draft, Sampling, Tree


def shape(
  num_draft: int,
  tree: Sequence[Sequence[int]] = (),
  siblings: str = 'likeliest',
  beam: int | None = None,
  num_nodes: int | None = None,
) -> 'StaticTree | DynamicTree':
  """The shape that a drafter's hyper-parameters name.

  Args:
    tree: paths of a static tree; none at all: a chain.
    siblings: of a static tree, see `drawing.children`.
    beam, num_nodes: of a dynamic tree.

  Raises:
    ValueError: settings of both; see `StaticTree` and `DynamicTree`.
  """
  if beam is None and num_nodes is None:
    return StaticTree(num_draft, tuple(map(tuple, tree or ())), siblings)
  if beam is None or num_nodes is None:
    raise ValueError(
      f'a dynamic tree needs beam and num_nodes, got {beam} and {num_nodes}'
    )
  if tree:
    raise ValueError('give either the paths of a static tree or beam and num_nodes')
  if siblings != 'likeliest':
    raise ValueError(
      f'siblings of a dynamic tree are the likeliest, got {siblings!r}: to choose '
      'among drawn ones by their probability bends the law of the output'
    )
  return DynamicTree(num_draft, beam, num_nodes)


class Level(NamedTuple):
  """The nodes of one depth that have children."""

  rows: tuple[int, ...]  # of the tree: the root stands in row 0, node n in row n + 1
  counts: tuple[int, ...]  # how many children each has


def levels(tree: Tree) -> list[Level]:
  """Whose children the nodes of a static tree are, in their order.

  parents -1 -1 0 0 1 -> Level((0,), (2,)), Level((1, 2), (2, 1))
  """
  assert tree.static is not None
  counts, depth = collections.Counter(tree.static), {-1: 0}
  for node, parent in enumerate(tree.static):
    depth[node] = depth[parent] + 1
  by_depth = [list(nodes) for _, nodes in itertools.groupby(counts, depth.__getitem__)]
  return [
    Level(tuple(node + 1 for node in nodes), tuple(counts[node] for node in nodes))
    for nodes in by_depth
  ]


def static_tree(num_draft: int, paths: Sequence[Sequence[int]]) -> Tree:
  """The tree of a path list (see `trees.from_paths`); without paths, a chain.

  Raises:
    ValueError: it is not num_draft deep; the paths make no tree.
  """
  checks.whole('num_draft', num_draft, 1)
  if not isinstance(paths, tuple) or not all(isinstance(x, tuple) for x in paths):
    raise ValueError(f'tree must be a tuple of tuples, (0,), (0, 0), ...; got {paths}')
  tree = trees.from_paths(paths) if paths else trees.chain(num_draft)
  if trees.max_depth(tree) != num_draft:
    raise ValueError(
      f'num_draft is {num_draft} and the tree is {trees.max_depth(tree)} deep: '
      'num_draft must be the length of its longest path'
    )
  return tree


@dataclasses.dataclass(frozen=True)
class StaticTree:
  """One shape for every round.

  Raises:
    ValueError: see `static_tree`; an unknown kind of siblings.
  """

  num_draft: int
  paths: tuple[tuple[int, ...], ...] = ()  # none: a chain
  siblings: str = 'likeliest'

  def __post_init__(self):
    _ = self.tree  # refuses wrong paths
    if self.siblings not in drawing.SIBLINGS:
      raise ValueError(
        f'siblings must be one of {", ".join(drawing.SIBLINGS)}, got {self.siblings!r}'
      )

  @functools.cached_property
  def tree(self) -> Tree:
    """The shape itself."""
    return static_tree(self.num_draft, self.paths)

  @property
  def num_nodes(self) -> int:
    """N."""
    return len(self._parents)

  @property
  def num_read(self) -> int:
    """How many nodes are read."""
    return len(self._inner[0])

  @property
  def widest(self) -> int:
    """The most children of a node."""
    return max(collections.Counter(self._parents).values())

  def grow(
    self, logits: Array, read: Callable, carry, keys, sampling: Sampling, vocab=None
  ) -> tuple[Draft, Any]:
    """A draft behind logits float[B, V_q], and the carry.

    Args:
      vocab: int32[V_q], the columns' tokens; None: the target's.
    """
    inner, above = self._inner
    drawn: list = []
    logits, seen = logits[:, None], 0
    for depth, level in enumerate(levels(self.tree)):
      if depth > 0:
        count = len(level.rows)
        seen += count
        tokens = jnp.concatenate([tokens for tokens, _ in drawn], axis=1)
        nodes = tokens[:, jnp.array(inner[:seen])]
        logits, carry = read(carry, nodes, Tree(static=above[:seen]), count)
      drawn.append(
        drawing.children(
          keys, level.rows, depth, logits, sampling, level.counts, self.siblings, vocab
        )
      )
    tokens, log_q = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *drawn)
    num_valid = jnp.full(len(tokens), self.num_nodes, jnp.int32)
    return Draft(tokens, num_valid, self.tree, log_q, vocab), carry

  @property
  def _parents(self) -> tuple[int, ...]:
    assert self.tree.static is not None
    return self.tree.static

  @property
  def _inner(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Nodes with children, and their parents among themselves.

    parents -1 -1 0 1 3 -> nodes 0 1 3, parents -1 -1 1
    """
    nodes = tuple(sorted({*self._parents} - {-1}))
    place = {-1: -1} | {node: i for i, node in enumerate(nodes)}
    return nodes, tuple(place[self._parents[node]] for node in nodes)
