"""Trees: shape functions against plain Python, and whole decodes along a known text."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specjax
from specjax import trees
from specjax.testing import toy_text
from specjax.testing.tiny import tiny_model
from specjax.types import Draft, Tree
from specjax.verifiers.greedy import Greedy
from specjax.verifiers.gumbel import Gumbel

pytestmark = pytest.mark.usefixtures('compile_quickly')

PARENTS = (-1, -1, 1, 1, 3)  # the right path is 1, 3, 4; nodes 0 and 2 are wrong


def _random_parents(rng, num_nodes):
  return [int(rng.integers(-1, node)) for node in range(num_nodes)]


def _way_up(parents, node):
  way = []
  while node >= 0:
    way.append(node)
    node = parents[node]
  return way[::-1]


@functools.partial(jax.jit, static_argnums=2)
def _shape(parents, rows, max_depth):
  ancestors = trees.ancestors(parents)
  return ancestors, trees.depths(ancestors), trees.path_to(ancestors, rows, max_depth)


def test_shape_functions_agree_with_walking_up():
  rng = np.random.default_rng(0)
  for num_nodes in (1, 7, 33):
    parents = [_random_parents(rng, num_nodes) for _ in range(4)]
    nodes = rng.integers(0, num_nodes, 4)
    ancestors, depths, paths = _shape(np.array(parents), nodes + 1, num_nodes)
    for row, node in enumerate(nodes):
      way = _way_up(parents[row], node)
      expected = np.zeros(num_nodes + 1, bool)
      expected[[0, *(n + 1 for n in way)]] = True
      np.testing.assert_array_equal(ancestors[row, node + 1], expected)
      assert depths[row, node + 1] == len(way)
      assert paths[row, : len(way)].tolist() == way


def test_a_chain_is_known_without_looking_at_arrays():
  assert trees.is_chain(trees.chain(5)) and trees.is_chain(trees.chain(0))
  assert not trees.is_chain(Tree(static=PARENTS))
  assert not trees.is_chain(Tree(grown=jnp.array([[-1, 0, 1]])))
  assert trees.max_depth(trees.chain(5)) == 5
  assert trees.max_depth(Tree(static=PARENTS)) == 3


@dataclasses.dataclass(frozen=True)
class Bush:
  """Knows the text and hides it among wrong siblings, down to a given depth."""

  grown: bool
  num_draft = 3
  num_nodes = 5
  feature_layers = ()

  def init(self, params, batch, max_len):
    return None

  def update(self, params, state, window):
    return None

  def propose(self, params, state, context, keys):
    (text, right), _ = params
    depth = jnp.array([1, 1, 2, 2, 3])
    wrong = jnp.array([1, 0, 1, 0, 0]) | (depth > right)
    index = context.length[:, None] + depth - 1
    known = jnp.take_along_axis(text, index, axis=1, mode='clip')
    batch = text.shape[0]
    parents = jnp.tile(jnp.array(PARENTS), (batch, 1))
    tree = Tree(grown=parents) if self.grown else Tree(static=PARENTS)
    tokens = (known + wrong) % toy_text.VOCAB_SIZE
    return Draft(tokens, jnp.full(batch, 5), tree), None


@pytest.fixture(scope='module')
def model():
  return tiny_model()


PROMPTS = [[5, 6, 7], [8] * 40, [1, 2, 3, 4, 5, 6]]


def _known(outputs, length):
  text = np.zeros((len(PROMPTS), length), np.int32)
  for row, (prompt, done) in enumerate(zip(PROMPTS, outputs)):
    both = prompt + done.tokens
    text[row, : len(both)] = both
  return jnp.array(text)


@pytest.mark.parametrize('grown', [False, True])
@pytest.mark.parametrize('right', [3, 1])
@pytest.mark.parametrize('verifier, temperature', [(Greedy(), 0.0), (Gumbel(), 1.0)])
def test_a_tree_emits_the_autoregressive_text(
  model, grown, right, verifier, temperature
):
  settings = dict(
    max_new_tokens=[20, 11, 17],
    temperature=temperature,
    seed=[1, 2, 3],
    stop_ids=(),
    verifier=verifier,
  )
  plain = specjax.decode(model, PROMPTS, **settings)
  text = _known(plain, 256)
  bushy = specjax.decode(
    model,
    PROMPTS,
    drafter=Bush(grown),
    drafter_params=(text, jnp.array(right)),
    **settings,
  )
  assert [done.tokens for done in bushy] == [done.tokens for done in plain]
  per_round = right + 1
  for done in bushy:
    assert done.target_calls == -(-len(done.tokens) // per_round)
    left = len(done.tokens) - per_round * np.arange(done.target_calls)
    # The last token wanted is the target's, so nodes stand less deep than what is left.
    fit = np.array([1, 1, 2, 2, 3]) < left[:, None]
    assert done.drafted == fit.sum()
    accepted = np.minimum(left - 1, right)  # of each round
    at_least = [int(np.sum(accepted >= depth)) for depth in (1, 2, 3)]
    assert done.node_accepted == [0, at_least[0], 0, *at_least[1:]]
  assert all(done.node_accepted is None for done in plain)
