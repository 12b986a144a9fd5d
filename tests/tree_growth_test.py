"""Trees grown inside jit: against numpy on the host, ties included."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import trees

pytestmark = pytest.mark.usefixtures('compile_quickly')

RNG = np.random.default_rng(0)
BATCH = 40
rerank = jax.jit(trees.rerank, static_argnums=2)
best_first = jax.jit(trees.best_first, static_argnums=1)


def test_rerank_by_hand():
  scores = jnp.array([[-0.1, -2, -0.3, -0.2], [-1, -1, -1, -1]], jnp.float32)
  parents = jnp.array([[-1, -1, 0, 0], [-1, 0, 1, 2]])
  nodes, above = trees.rerank(scores, parents, 3)
  assert nodes.tolist() == [[0, 2, 3], [0, 1, 2]]
  assert above.tolist() == [[-1, 0, 0], [-1, 0, 1]]


def test_rerank_keeps_the_best_and_their_ancestors():
  size, kept = 30, 12
  parents = np.array([[RNG.integers(-1, n) for n in range(size)] for _ in range(BATCH)])
  own = -RNG.integers(0, 4, (BATCH, size)) / 4  # many ties, also of child and parent
  scores = np.zeros((BATCH, size + 1), np.float32)  # the last is the root's
  for node in range(size):
    scores[:, node] = scores[np.arange(BATCH), parents[:, node]] + own[:, node]
  scores = scores[:, :size]
  nodes, above = rerank(scores, parents.astype(np.int32), kept)
  for row in range(BATCH):
    best = sorted(range(size), key=lambda n: (-scores[row, n], n))[:kept]
    assert nodes[row].tolist() == sorted(best)
    for node, parent in zip(nodes[row], above[row]):
      before = parents[row, node]
      assert parent == -1 if before == -1 else nodes[row, parent] == before


def test_best_first_takes_the_most_probable_of_all_paths():
  depths, ranks, kept = 4, 3, 11
  # In 64ths, so that sums are exact and ties are ties.
  laws = -np.sort(RNG.integers(1, 40, (BATCH, depths, ranks)), axis=2) / 64
  parents, depth, rank = best_first(laws.astype(np.float32), kept)
  paths = [
    path
    for length in range(1, depths + 1)
    for path in itertools.product(range(ranks), repeat=length)
  ]
  for row in range(BATCH):
    score = {p: sum(laws[row, d, r] for d, r in enumerate(p)) for p in paths}
    best = sorted(paths, key=lambda path: (-score[path], len(path), path))[:kept]
    found = []
    for node in range(kept):
      above = found[parents[row, node]] if parents[row, node] >= 0 else ()
      found.append((*above, int(rank[row, node])))
    assert found == sorted(best, key=lambda path: (len(path), path))
    assert depth[row].tolist() == [len(path) for path in found]


def test_more_nodes_than_there_are_paths_are_refused():
  with pytest.raises(ValueError, match='7 nodes are wanted of only 6'):
    trees.best_first(jnp.zeros((1, 2, 2)), 7)
