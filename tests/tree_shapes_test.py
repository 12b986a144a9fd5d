"""Static trees as path lists, as width lists and as text."""

import itertools

import jax.numpy as jnp
import pytest

from configs import common
from specjax import trees
from tests.small_trees import small_trees

PATHS = ((0,), (1,), (0, 0), (0, 1), (0, 1, 0))


def test_nodes_stand_by_depth_then_by_path():
  for order in itertools.permutations(PATHS):
    assert trees.from_paths(order).static == (-1, -1, 0, 0, 3)
  assert trees.paths(trees.Tree(static=(-1, -1, 0, 0, 3))) == PATHS
  assert trees.from_paths(()) == trees.chain(0)
  assert trees.from_paths([[0], [0, 0], [0, 0, 0]]) == trees.chain(3)


def test_every_small_tree_survives_the_round_trip():
  shapes = small_trees(6, 4, 3)
  # Ordered trees of 0 .. 6 nodes: Catalan numbers, less the too deep and too wide.
  assert len([shape for shape in shapes if len(shape) == 4]) == 13
  for shape in shapes:
    tree = trees.from_paths(shape)
    assert trees.from_paths(trees.paths(tree)) == tree
    assert set(trees.paths(tree)) == shape


def test_paths_of_nodes_that_stand_in_another_order():
  assert trees.paths(trees.Tree(static=(-1, 0, -1, 2, 0))) == (
    (0,),
    (0, 0),
    (1,),
    (1, 0),
    (0, 1),
  )


@pytest.mark.parametrize(
  ('paths', 'message'),
  [
    ([(0,), (0, 1)], r'\(0, 1\) needs \(0, 0\), which is missing'),
    ([(0,), (1, 0)], r'\(1, 0\) needs \(1,\)'),
    ([(1,)], r'\(1,\) needs \(0,\)'),
    ([(0,), (0,)], r'\(0,\) is there twice'),
    ([()], r'\(\) is there twice, \(\) being the root'),
    ([(0,), (-1,)], r'a rank of the path \(-1,\) must be .* got -1'),
    ([0, 1], r'a path is a sequence of ranks, \(0, 1\); got 0'),
  ],
)
def test_wrong_paths_are_refused(paths, message):
  with pytest.raises(ValueError, match=message):
    trees.from_paths(paths)


def test_a_grown_tree_has_no_paths():
  with pytest.raises(ValueError, match='grown'):
    trees.paths(trees.Tree(grown=jnp.zeros((1, 2), jnp.int32) - 1))


def test_widths_in_the_library_and_in_configs():
  assert trees.from_widths((2, 1)).static == (-1, -1, 0, 1)
  assert trees.from_widths((1, 1, 1)) == trees.chain(3)
  assert common.widths(2, 1) == ((0,), (1,), (0, 0), (1, 0))
  for widths in ((), (3,), (4, 3), (3, 2, 1, 2)):
    assert trees.paths(trees.from_widths(widths)) == common.widths(*widths)
  with pytest.raises(ValueError, match=r'widths\[1\].*at least 1, got 0'):
    trees.from_widths((2, 0))


def test_a_tree_as_text():
  drawn = trees.as_text(trees.from_paths(PATHS), [0.6, 0.2, 0.36, 0.1, 0.08])
  assert drawn.splitlines() == [
    'root',
    '├─ 0  0.60',
    '│  ├─ 0  0.36',
    '│  └─ 1  0.10',
    '│     └─ 0  0.08',
    '└─ 1  0.20',
  ]
  assert trees.as_text(trees.chain(1)).splitlines() == ['root', '└─ 0']
  with pytest.raises(ValueError, match='2 numbers for a tree of 1 nodes'):
    trees.as_text(trees.chain(1), [0.5, 0.5])
