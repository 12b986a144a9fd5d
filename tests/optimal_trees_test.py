"""The best static tree: against all small trees, and against greedy choice."""

import heapq
import math

import numpy as np
import pytest

from specjax import trees
from tests.small_trees import small_trees

RNG = np.random.default_rng(0)


def expectation(shape, rates) -> float:
  """1 + the chance of each path, straight from the definition."""
  chance = lambda path: math.prod(rates[d][rank] for d, rank in enumerate(path))
  return 1 + sum(chance(path) for path in shape)


def some_rates():
  """Tables of 4 depths and 3 ranks: falling, rising, with zeros, all over."""
  table = RNG.dirichlet([1, 1, 1, 1], 4)[:, :3]
  return [
    -np.sort(-table, axis=1),
    np.sort(table, axis=1),
    np.where(RNG.random((4, 3)) < 0.4, 0.0, table),
    RNG.random((4, 3)),
  ]


@pytest.mark.parametrize('rates', some_rates())
def test_no_small_tree_is_better(rates):
  shapes = small_trees(7, 4, 3)
  for max_depth in range(5):
    best = trees.best_trees(rates, 7, max_depth)
    assert len(best) == 8
    for max_nodes, tree in enumerate(best):
      allowed = (
        shape
        for shape in shapes
        if len(shape) <= max_nodes and all(len(path) <= max_depth for path in shape)
      )
      highest = max(expectation(shape, rates) for shape in allowed)
      assert len(tree.static) <= max_nodes and trees.max_depth(tree) <= max_depth
      assert trees.expected_tokens(tree, rates) == pytest.approx(highest, abs=1e-12)
      own = expectation(trees.paths(tree), rates)
      assert trees.expected_tokens(tree, rates) == pytest.approx(own, abs=1e-12)


def most_probable(rates, nodes: int) -> list[tuple[int, ...]]:
  """The likeliest paths one by one: a node's children follow it into the queue."""
  children = lambda path, chance: (
    [(-chance * rate, (*path, r)) for r, rate in enumerate(rates[len(path)])]
    if len(path) < len(rates)
    else []
  )
  queue, chosen = children((), 1.0), []
  heapq.heapify(queue)
  while len(chosen) < nodes:
    minus_chance, path = heapq.heappop(queue)
    chosen.append(path)
    for child in children(path, -minus_chance):
      heapq.heappush(queue, child)
  return chosen


def test_with_falling_rates_greedy_choice_is_best():
  for _ in range(10):
    rates = -np.sort(-RNG.dirichlet([1, 1, 1, 1, 1], 6), axis=1)
    best = trees.best_trees(rates, 40, 6)
    for nodes in (1, 5, 17, 40):
      assert set(trees.paths(best[nodes])) == set(most_probable(rates, nodes))


def test_hand_worked_numbers():
  same = (0.6, 0.2)
  chain = trees.chain(3)
  fork = trees.from_paths([(0,), (1,), (0, 0)])
  assert trees.expected_tokens(chain, same) == pytest.approx(2.176)
  assert trees.expected_tokens(fork, same) == pytest.approx(2.16)
  assert trees.best_trees(same, 3, 3)[3] == chain
  assert trees.best_trees(same, 3, 2)[3] == fork
  assert trees.best_trees(same, 0, 9) == [trees.chain(0)]
  # Five equal drafts: E = (1 - .8^6) / (1 - .8).
  assert trees.expected_tokens(trees.chain(5), [0.8]) == pytest.approx(3.68928)
  # A third of the tokens from undrafted rounds, 1 + 3 s each; 2 of 3 2.16 in 2 + 9 s.
  verify_s = [3.0, 5.0, 7.0, 9.0]
  speed = trees.tokens_per_second(fork, same, verify_s, 1.0, 1 / 3)
  assert speed == pytest.approx(1 / (1 / 3 * (2 + 3) + 2 / 3 / 2.16 * (2 + 9)))


def test_nodes_that_are_never_accepted_are_left_out():
  assert trees.best_trees([[0.5, 0.0], [0.0, 0.0]], 4, 2)[4] == trees.chain(1)
  # A rank that never is, before one that is: both are needed.
  assert trees.best_trees([[0.0, 0.5]], 2, 1)[2].static == (-1, -1)


@pytest.mark.parametrize('undrafted', [0.0, 0.7])
@pytest.mark.parametrize('draft_s', [0.0, 0.4])
@pytest.mark.parametrize('rates', some_rates())
def test_no_small_tree_is_faster(rates, draft_s, undrafted):
  verify_s = np.cumsum(RNG.random(7)) + 2
  fastest = trees.fastest(rates, verify_s, draft_s, undrafted)

  def speed(shape):
    depth = max(map(len, shape), default=0)
    rounds = (1 - undrafted) / expectation(shape, rates)
    seconds = rounds * verify_s[len(shape)] + undrafted * verify_s[0]
    return 1 / (seconds + (rounds + undrafted) * depth * draft_s)

  highest = max(speed(shape) for shape in small_trees(6, 4, 3))
  assert speed(trees.paths(fastest)) == pytest.approx(highest, rel=1e-12)
  told = trees.tokens_per_second(fastest, rates, verify_s, draft_s, undrafted)
  assert told == pytest.approx(highest, rel=1e-12)


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    (lambda: trees.expected_tokens(trees.chain(2), [[0.5]]), r'2 depths.*\(1, 1\)'),
    (lambda: trees.expected_tokens(trees.from_widths((2,)), [0.5]), r'rank 1.*1 ranks'),
    (lambda: trees.tokens_per_second(trees.chain(2), [0.5], [1, 2]), '3 rows.*to 2'),
    (lambda: trees.best_trees([0.5, 1.5], 2, 2), 'within 0 and 1: 0.5 to 1.5'),
  ],
)
def test_rates_that_do_not_fit_are_refused(call, message):
  with pytest.raises(ValueError, match=message):
    call()


def test_rates_from_counts_by_hand():
  tree = trees.from_paths([(0,), (1,), (0, 0), (1, 0), (0, 0, 0), (0, 0, 1)])
  rates = trees.acceptance_rates(tree, [60, 20, 36, 10, 9, 3], 100)
  np.testing.assert_allclose(
    rates, [[0.6, 0.2], [46 / 80, 0], [9 / 36, 3 / 36]], rtol=1e-12
  )
  chances = trees.path_chances(trees.from_paths([(0,), (1,), (1, 0)]), rates)
  assert chances == pytest.approx([0.6, 0.2, 0.2 * 46 / 80])
  nothing = trees.acceptance_rates(tree, [0] * 6, 0)
  assert nothing.shape == (3, 2) and not nothing.any()


def test_rates_of_a_tree_with_one_parent_a_depth_give_its_tokens_back():
  paths = [(0,) * depth + (rank,) for depth in range(4) for rank in range(3)]
  tree = trees.from_paths(paths)
  counts = {(): 1000}
  for path in trees.paths(tree):
    counts[path] = int(counts[path[:-1]] * [0.5, 0.2, 0.1][path[-1]])
  accepted = [counts[path] for path in trees.paths(tree)]
  rates = trees.acceptance_rates(tree, accepted, 1000)
  tokens = 1 + sum(accepted) / 1000
  assert trees.expected_tokens(tree, rates) == pytest.approx(tokens, rel=1e-12)


@pytest.mark.parametrize('depth', range(6))
def test_rounds_of_copied_passages_are_counted(depth):
  """Passages of 0 .. 9 tokens, each ended by the target's own one."""
  lengths, share = np.arange(10), RNG.dirichlet(np.ones(10))
  longer = np.cumsum(share[::-1])[::-1]  # than d - 1
  rates = (longer[1:] / longer[:-1])[:, None]  # of 9 depths; none is longer
  rates = np.vstack([rates, [[0.0]]])
  rounds = share @ (lengths // (depth + 1) + 1)
  tokens = trees.copied_tokens(trees.chain(depth), rates)
  assert tokens == pytest.approx(share @ (lengths + 1) / rounds, rel=3e-3)


def test_copied_tokens_by_hand():
  falling = [[0.5], [0.8], [0.9], [0.9], [0.9], [0.9]]
  passages = [1, *(0.4 * 0.81**n for n in range(100))]
  tokens = (1.5 + 1.9 * sum(passages[1:])) / sum(passages)
  assert trees.copied_tokens(trees.chain(1), falling) == pytest.approx(tokens, rel=1e-3)
  assert trees.copied_tokens(trees.chain(0), falling) == 1


def test_rounds_are_alike_where_depths_are():
  for tree in (trees.chain(3), trees.from_widths((3, 2, 1)), trees.from_widths((2,))):
    told = trees.expected_tokens(tree, (0.6, 0.2, 0.1))
    assert trees.copied_tokens(tree, (0.6, 0.2, 0.1)) == pytest.approx(told, rel=1e-12)
