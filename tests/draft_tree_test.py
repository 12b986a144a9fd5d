"""Trees of a draft model on a table: every node is what plain Python finds there."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import keys as keys_lib
from specjax import sampling, trees
from specjax.drafters import growing
from specjax.drafters.draft_tree import DraftTree
from specjax.drafters.dynamic_tree import DynamicTree
from specjax.drafters.growing import StaticTree
from specjax.testing import laws
from specjax.testing.table import table_model
from specjax.types import Context

pytestmark = pytest.mark.usefixtures('compile_quickly')

V, L, ROWS = 7, 24, 64
MODEL = table_model(V, seed=3)
BIAS = {2: 0.7, 4: -np.inf}
PATHS = (0,), (1,), (2,), (0, 0), (0, 1), (2, 0), (0, 1, 0), (2, 0, 0), (2, 0, 1)
TABLE = np.asarray(MODEL.params, np.float64) + np.asarray(
  sampling.bias_rows(BIAS, 1, V)[0], np.float64
)


def drafts_of(shape, seed: int = 0, temperature=0.0, **declared):
  """Texts, and a fresh drafter's draft behind them, on the host."""
  rng = np.random.default_rng(seed)
  tokens, length = rng.integers(0, V, (ROWS, L)), rng.integers(1, L + 1, ROWS)
  context = Context(
    tokens=jnp.asarray(tokens, jnp.int32),
    length=jnp.asarray(length, jnp.int32),
    budget=jnp.full(ROWS, 9),
    sampling=sampling.make_sampling(
      ROWS, temperature=temperature, logit_bias=sampling.bias_rows(BIAS, ROWS, V)
    ),
  )
  seeds = jnp.arange(ROWS, dtype=jnp.uint32)
  keys = keys_lib.row_keys(seeds, context.length, V, **declared)
  drafter = DraftTree(MODEL.target, V, shape)
  draft = jax.device_get(propose(drafter, MODEL.params, context, keys))
  assert np.all(draft.num_valid == shape.num_nodes)
  return [row[:n].tolist() for row, n in zip(tokens, length)], draft


@functools.partial(jax.jit, static_argnums=0)
def propose(drafter, params, context, keys):
  state = drafter.init((params, None), ROWS, L)
  draft, state = drafter.propose((params, None), state, context, keys)
  return draft


def behind(text: list[int]) -> np.ndarray:
  """The draft model's logits, float64[V]."""
  return TABLE[tuple([0, *text][-2:])]


def ways(draft, row: int) -> list[list[int]]:
  """The tokens on the way to each node, its own included."""
  parents = np.asarray(trees.parents(draft.tree, ROWS))[row]
  found: list[list[int]] = []
  for token, parent in zip(draft.tokens[row].tolist(), parents):
    found.append([*(found[parent] if parent >= 0 else []), token])
  return found


@pytest.mark.parametrize('siblings', ['distinct', 'likeliest'])
def test_a_greedy_tree_holds_the_likeliest_along_each_path(siblings):
  shape = StaticTree(3, PATHS, siblings)
  texts, draft = drafts_of(shape, greedy_only=siblings == 'distinct')
  assert draft.log_q is None and trees.paths(draft.tree) == PATHS
  for row, text in enumerate(texts):
    for path, way in zip(PATHS, ways(draft, row)):
      for depth, rank in enumerate(path):
        best = np.argsort(-behind(text + way[:depth]))
        assert way[depth] == best[rank], (text, path)


@pytest.mark.parametrize('siblings', ['distinct', 'independent'])
def test_a_drawn_tree_carries_the_law_behind_each_path(siblings):
  shape = StaticTree(3, PATHS, siblings)
  texts, draft = drafts_of(shape, temperature=0.8)
  for row, text in enumerate(texts):
    way_to = dict(zip(PATHS, ways(draft, row)))
    for node, path in enumerate(PATHS):
      law = laws.warped(behind(text + way_to[path][:-1]), temperature=0.8)
      if siblings == 'distinct':
        elders = [way_to[*path[:-1], rank][-1] for rank in range(path[-1])]
        law[elders] = 0
      np.testing.assert_allclose(
        np.exp(draft.log_q[row, node]), law / law.sum(), atol=1e-5
      )


def eagle2(text, num_draft: int, beam: int, num_nodes: int) -> list[list[int]]:
  """The ways to the nodes of EAGLE-2's tree, by depth and then by path."""
  pool, level = [], [([], 0.0)]
  for _ in range(num_draft):
    children = []
    for way, score in level:
      logits = behind(text + way)
      log_q = logits - np.log(np.exp(logits).sum())
      best = np.argsort(-log_q)[:beam]
      children += [([*way, int(x)], score + log_q[x]) for x in best]
    pool += children
    level = the_best(children, beam)
  return [way for way, _ in the_best(pool, num_nodes)]


def the_best(nodes, count: int):
  """Those of the highest scores, in their order."""
  least = sorted((score for _, score in nodes), reverse=True)[count - 1]
  return [node for node in nodes if node[1] >= least]


@pytest.mark.parametrize(
  'shape',
  [DynamicTree(4, 3, 12), DynamicTree(3, 2, 10), DynamicTree(1, 3, 2)],
  ids=str,
)
def test_a_dynamic_tree_is_eagle_2s(shape):
  shapes = set()
  for seed in range(2):
    texts, draft = drafts_of(shape, seed, temperature=0.8)
    assert draft.log_q is None and trees.max_depth(draft.tree) == shape.num_draft
    for row, text in enumerate(texts):
      want = eagle2(text, shape.num_draft, shape.beam, shape.num_nodes)
      assert ways(draft, row) == want
      shapes.add(tuple(draft.tree.grown[row]))
  assert len(shapes) > 1 or shape.num_draft == 1


def test_a_dynamic_tree_compiles_once():
  before = propose._cache_size()
  for seed in range(3):
    drafts_of(DynamicTree(2, 2, 4), seed, temperature=seed)
  assert propose._cache_size() == before + 1


def test_only_nodes_with_children_are_read():
  tree = StaticTree(3, PATHS)
  assert (tree.num_nodes, tree.num_read, tree.widest) == (9, 4, 3)
  dynamic = DynamicTree(4, 3, 12)
  assert (dynamic.num_read, dynamic.widest) == (9, 3)


@pytest.mark.parametrize(
  'settings, shape',
  [
    (dict(num_draft=2), StaticTree(2)),
    (dict(num_draft=1, tree=[[0], [1]]), StaticTree(1, ((0,), (1,)))),
    (dict(num_draft=2, beam=2, num_nodes=3), DynamicTree(2, 2, 3)),
  ],
)
def test_settings_name_a_shape(settings, shape):
  assert growing.shape(**settings) == shape


@pytest.mark.parametrize(
  'settings, message',
  [
    (dict(num_draft=0), 'num_draft'),
    (dict(num_draft=2, tree=((0,),)), 'num_draft is 2 and the tree is 1 deep'),
    (
      dict(num_draft=2, siblings='best'),
      "likeliest, distinct, independent, got 'best'",
    ),
    (dict(num_draft=2, beam=2), 'needs beam and num_nodes, got 2 and None'),
    (dict(num_draft=1, tree=((0,),), beam=1, num_nodes=1), 'either'),
    (
      dict(num_draft=2, siblings='distinct', beam=2, num_nodes=3),
      "likeliest, got 'distinct'",
    ),
    (dict(num_draft=2, beam=2, num_nodes=7), 'num_nodes is 7.* makes 6 candidates'),
  ],
)
def test_bad_settings_are_refused(settings, message):
  with pytest.raises(ValueError, match=message):
    growing.shape(**settings)


def test_a_tree_wider_than_the_vocabulary_is_refused():
  with pytest.raises(ValueError, match='has 8 children, and there are 7 tokens'):
    DraftTree(MODEL.target, V, DynamicTree(2, 8, 9))
