"""The jitted tree rules against exact arithmetic, draft by draft."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from specjax import acceptance, trees
from specjax import keys as keys_lib
from specjax.testing import chains, laws
from specjax.types import Draft, Tree
from specjax.verifiers import siblings
from specjax.verifiers.block import Block
from specjax.verifiers.rejection import Rejection
from specjax.verifiers.traversal import Traversal

pytestmark = pytest.mark.usefixtures('compile_quickly')

V = 4
SHAPE = [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 1), (1, 0, 0)]
PARENTS = (-1, -1, 0, 0, 1, 2, 2, 4)
P, Q = np.random.default_rng(3).dirichlet(np.ones(V), (2, V)).tolist()
RULES = dict(rejection=Rejection(), traversal=Traversal())
WAYS = 'independent', 'distinct', 'likeliest'


@functools.cache
def some(way: str, count: int) -> list[tuple[dict, int]]:
  """Drafts, as `acceptance.drafts` has them, and how many of their nodes count."""
  rng = np.random.default_rng(0)
  every = [draft for _, draft in acceptance.drafts(Q, SHAPE, way)]
  chosen = [every[i] for i in rng.integers(len(every), size=count)]
  counts = len(SHAPE) - np.arange(count) % (len(SHAPE) + 1)
  return list(zip(chosen, counts.tolist()))


def as_arrays(drafts, tree: Tree) -> tuple[Draft, jax.Array]:
  """The draft, and log p float32[B, N + 1, V]."""
  nodes = [[draft[path] for path in SHAPE] for draft, _ in drafts]
  tokens = jnp.array([[token for token, _ in row] for row in nodes], jnp.int32)
  certain = nodes[0][0][1] is None
  with np.errstate(divide='ignore'):
    log_q = None if certain else np.log([[law for _, law in row] for row in nodes])
  draft = Draft(
    tokens=tokens,
    num_valid=jnp.array([count for _, count in drafts], jnp.int32),
    tree=tree,
    log_q=None if log_q is None else jnp.asarray(log_q, jnp.float32),
  )
  log_p = jnp.log(jnp.array(P))[jnp.pad(tokens, ((0, 0), (1, 0)))]
  return draft, log_p


def exact_ends(drafts, rule: str) -> np.ndarray:
  """The chance to end at each row, and then with each token, float64[B, N + 1, V]."""
  chances = np.zeros((len(drafts), len(SHAPE) + 1, V))
  for row, (draft, count) in enumerate(drafts):
    valid = {path: draft[path] for path in SHAPE[:count]}
    node = {(): 0}
    for place, path in enumerate(SHAPE[:count], start=1):
      node[path] = place
    for path, stays, law in end_paths(valid, rule):
      chances[row, node[path]] += stays * np.array(law)
  return chances


def end_paths(draft, rule: str):
  """`acceptance.ends` by path: it looks at children first, elders before younger."""
  order: list[tuple[int, ...]] = []

  def look(path):
    rank = 0
    while (*path, rank) in draft:
      look((*path, rank))
      rank += 1
    order.append(path)

  look(())
  found = acceptance.ends(P, draft, rule)
  return [
    (path, stays, law) for path, (_, stays, law) in zip(order, found, strict=True)
  ]


@pytest.mark.parametrize('way', WAYS)
def test_weights_are_those_of_exact_arithmetic(way):
  drafts = some(way, 90)
  draft, log_p = as_arrays(drafts, Tree(grown=jnp.array([PARENTS] * len(drafts))))
  weigh = jax.jit(siblings.weigh, static_argnums=2)
  for rule in RULES:
    kept, rest = map(np.asarray, weigh(draft, log_p, rule == 'traversal'))
    ends = exact_ends(drafts, rule).sum(axis=2)
    for row, (_, count) in enumerate(drafts):
      got = composed(kept[row], rest[row], count, rule)
      np.testing.assert_allclose(got, ends[row, : count + 1], atol=3e-6)


def composed(kept, rest, count: int, rule: str) -> np.ndarray:
  """The chance to end at each row, of the chances to keep each node."""
  children = [
    [n for n in range(count) if PARENTS[n] == r - 1] for r in range(count + 1)
  ]
  ends, alive = np.zeros(count + 1), 1.0

  def look(row, reach):
    nonlocal alive
    for node in children[row]:
      look(node + 1, reach * kept[node])
      reach *= 1 - kept[node]
    ends[row] = reach if rule == 'rejection' else alive * rest[row]
    alive -= ends[row]

  look(0, 1.0)
  return ends


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('rule', RULES)
def test_verdicts_are_drawn_from_the_exact_law(rule, way):
  each, drafts = 4000, some(way, 18)
  draft, log_p = as_arrays(drafts, Tree(static=PARENTS))
  draft, log_p = jax.tree.map(lambda x: jnp.repeat(x, each, axis=0), (draft, log_p))
  verdict = chains.verify(RULES[rule], keys_of(len(log_p)), draft, log_p)
  verdict = jax.device_get(verdict)
  last = verdict.path[np.arange(len(log_p)), np.maximum(verdict.num_accepted, 1) - 1]
  row = np.where(verdict.num_accepted > 0, last + 1, 0)
  cells = (row * V + verdict.next_token).reshape(-1, each)
  p_values = []
  for seen, law in zip(cells, exact_ends(drafts, rule)):
    p_values.append(laws.p_value(seen[:, None], law.ravel(), law.size))
  assert stats.combine_pvalues(p_values).pvalue > 1e-4


def keys_of(rows: int) -> keys_lib.RoundKeys:
  return keys_lib.row_keys(jnp.arange(rows, dtype=jnp.uint32), jnp.full(rows, 9), V)


@pytest.mark.parametrize('kind', ['drawn', 'one-hot', 'reduced'])
@pytest.mark.parametrize(
  'on_trees, on_chains', [(Traversal(), Block()), (Rejection(), Rejection())]
)
def test_a_tree_of_one_branch_is_a_chain(kind, on_trees, on_chains):
  rows = 20_000
  num_valid, warm = np.arange(rows) % (chains.K + 1), np.arange(rows) % 3 > 0
  draft = chains.propose(kind, chains.DRAFTER, num_valid)
  log_p = chains.log_law(draft, chains.TARGET, warm.astype(float))
  grown = trees.parents(draft.tree, rows)
  keys = chains.round_keys(rows)
  want = chains.verify(on_chains, keys, draft, log_p)
  got = chains.verify(on_trees, keys, draft.replace(tree=Tree(grown=grown)), log_p)
  same = want.num_accepted == got.num_accepted
  same &= want.next_token == got.next_token
  assert np.mean(same) > 1 - 2e-4  # but for coins within rounding of the chance
