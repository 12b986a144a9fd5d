"""Tree rules in exact arithmetic: published values, the law, and who beats whom."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from specjax import acceptance

P = [Fraction(n, 10) for n in (5, 3, 2)]
Q = [Fraction(n, 10) for n in (2, 3, 5)]
WAYS = 'independent', 'distinct', 'likeliest'
RULES = 'rejection', 'traversal'


def paths(*widths: int) -> list[tuple[int, ...]]:
  return [
    path
    for depth in range(1, len(widths) + 1)
    for path in itertools.product(*map(range, widths[:depth]))
  ]


@pytest.mark.parametrize(
  'siblings, values',
  [
    ('independent', ('7/10', '19/25', '101/125')),
    ('distinct', ('7/10', '41/50', '1')),
    ('likeliest', ('1/5', '1/2', '1')),
  ],
)
@pytest.mark.parametrize('rule', RULES)
def test_candidates_at_one_node(siblings, values, rule):
  for width, want in enumerate(values, start=1):
    got = acceptance.tree(P, Q, paths(width), siblings, rule)
    assert got == Fraction(want)


@pytest.mark.parametrize(
  'widths, traversal, rejection',
  [
    ((2, 1), '727/500', '697/500'),
    ((2, 2), '3821/2500', '3731/2500'),
    ((3, 1), '44/25', '17/10'),
  ],
)
def test_traversal_and_rejection_of_distinct_siblings(widths, traversal, rejection):
  want = dict(traversal=traversal, rejection=rejection)
  for rule in RULES:
    got = acceptance.tree(P, Q, paths(*widths), 'distinct', rule)
    assert got == Fraction(want[rule])


@pytest.mark.parametrize('num_draft, want', [(2, '119/100'), (4, '17731/10000')])
def test_a_chain_is_rejection_and_block(num_draft, want):
  chain = paths(*[1] * num_draft)
  assert acceptance.tree(P, Q, chain, 'distinct', 'rejection') == Fraction(want)
  p, q = [float(x) for x in P], [float(x) for x in Q]
  got = acceptance.tree(p, q, chain, 'distinct', 'traversal')
  np.testing.assert_allclose(got, acceptance.block(p, q, num_draft), rtol=1e-12)


@pytest.mark.parametrize('siblings', WAYS)
@pytest.mark.parametrize('rule', RULES)
def test_the_output_has_the_targets_law_exactly(siblings, rule):
  p = [P, Q, [Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)]]
  q = [Q, [Fraction(1, 3), Fraction(2, 3), Fraction(0)], P]
  shape = [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]
  if siblings == 'distinct':  # the law of token 1 has two tokens, and then no more
    shape.remove((0, 0, 0))
  law = {}
  for chance, draft in acceptance.drafts(q, shape, siblings):
    for tokens, stays, residual in acceptance.ends(p, draft, rule):
      if stays:
        for text, share in continued(p, tokens, residual, 4):
          law[text] = law.get(text, 0) + chance * stays * share
  for text in itertools.product(range(3), repeat=4):
    want = Fraction(1)
    for last, token in itertools.pairwise((0, *text)):
      want *= p[last][token]
    assert law.get(text, 0) == want


def continued(p, tokens, residual, length):
  """Texts of this length behind accepted tokens, and their chances."""
  texts = [((*tokens, x), share) for x, share in enumerate(residual) if share]
  while len(texts[0][0]) < length:
    texts = [
      ((*text, x), share * more)
      for text, share in texts
      for x, more in enumerate(p[text[-1]])
      if more
    ]
  return texts


def test_traversal_is_not_below_rejection_on_random_small_laws():
  rng = np.random.default_rng(0)
  better = 0
  for case in range(1000):
    size = int(rng.integers(2, 4))
    p, q = rng.dirichlet(np.ones(size), (2, size)).tolist()
    siblings = WAYS[case % 3]
    shape = random_tree(rng, most=3 if siblings == 'independent' else 2)
    rejection, traversal = (
      acceptance.tree(p, q, shape, siblings, rule) for rule in RULES
    )
    assert traversal >= rejection - 1e-12
    better += traversal > rejection + 1e-9
  assert better > 200


def random_tree(rng, most: int) -> list[tuple[int, ...]]:
  """Up to five nodes; what hangs on a node, its elder siblings have as well."""
  nodes: list[tuple[int, ...]] = [()]
  for _ in range(rng.integers(2, 6)):
    open_ends = [
      child
      for node in nodes
      for child in [(*node, sum(n[:-1] == node and n != () for n in nodes))]
      if child[-1] < most and all(elder in nodes for elder in elders(child))
    ]
    nodes.append(open_ends[rng.integers(len(open_ends))])
  return sorted(nodes[1:], key=lambda path: (len(path), path))


def elders(path: tuple[int, ...]) -> list[tuple[int, ...]]:
  """The path with one of its ranks lowered by one, in every way."""
  return [
    (*path[:at], rank - 1, *path[at + 1 :]) for at, rank in enumerate(path) if rank
  ]


def test_traversal_may_be_below_rejection_where_no_sibling_has_more():
  law_of = lambda *shares: [Fraction(share, 1000) for share in shares]
  anything = law_of(250, 250, 250, 250)
  p = [law_of(0, 980, 20, 0), law_of(0, 400, 195, 405), anything, anything]
  q = [law_of(0, 1000, 0, 0), law_of(500, 400, 100, 0), anything, anything]
  rejection, traversal = (
    acceptance.tree(p, q, [(0,), (0, 0), (0, 1)], 'distinct', rule) for rule in RULES
  )
  assert rejection == Fraction(15631, 10000)
  assert traversal == Fraction(238201, 152400) < rejection


def test_traversal_may_be_below_rejection_where_a_younger_sibling_has_more():
  p, q = [Fraction(1, 6), Fraction(5, 6)], [Fraction(1, 3), Fraction(2, 3)]
  shape = [(0,), (0, 0), (0, 1), (0, 1, 0)]
  rejection, traversal = (
    acceptance.tree(p, q, shape, 'independent', rule) for rule in RULES
  )
  assert (rejection, traversal) == (Fraction(275, 162), Fraction(274, 162))
