"""Trees through the whole loop: the text stays that of plain decoding."""

import dataclasses

import jax.numpy as jnp
import pytest

import specjax
from specjax import keys as keys_lib
from specjax import trees
from specjax.testing.oracle_text import oracle_text
from specjax.testing.table import table_model
from specjax.types import Context, Draft, Tree, Window
from specjax.verifiers.greedy import Greedy
from specjax.verifiers.gumbel import Gumbel

pytestmark = pytest.mark.usefixtures('compile_quickly')

MODEL = table_model(11)
PROMPTS = [[1, 2, 3, 1], [0], [4, 2, 1, 10, 3] * 30]
SETTINGS = dict(max_new_tokens=[40, 33, 25], stop_ids=(), seed=[1, 2, 3])


@dataclasses.dataclass(frozen=True)
class Bush:
  """Each node holds the known token of its depth, or, by a coin, a wrong one."""

  shapes: tuple[tuple[int, ...], ...]  # parents; several: rows take turns, grown
  vocab_size: int
  feature_layers = ()

  @property
  def num_draft(self) -> int:
    return self.num_nodes if len(self.shapes) > 1 else trees.max_depth(self.tree(1))

  @property
  def num_nodes(self) -> int:
    return len(self.shapes[0])

  def tree(self, batch: int) -> Tree:
    if len(self.shapes) == 1:
      return Tree(static=self.shapes[0])
    return Tree(grown=jnp.array(self.shapes)[jnp.arange(batch) % len(self.shapes)])

  def init(self, params, batch: int, max_len: int) -> None:
    """No state."""

  def update(self, params, state: None, window: Window) -> None:
    """Nothing to learn."""

  def propose(self, params, state: None, context: Context, keys):
    batch = len(context.length)
    tree = self.tree(batch)
    depth = trees.depths(trees.ancestors(trees.parents(tree, batch)))[:, 1:]
    place = context.length[:, None] + depth - 1
    known = jnp.take_along_axis(params[0], place, axis=1, mode='clip')
    right = keys_lib.uniforms(keys, keys_lib.DRAFT, self.num_nodes) < 0.6
    wrong = (known + 1 + jnp.arange(self.num_nodes) % 2) % self.vocab_size
    num_valid = context.length % (self.num_nodes + 1)  # also none
    return Draft(jnp.where(right, known, wrong), num_valid, tree), None


WIDE, DEEP = (-1, -1, 0, 0, 1, 2, 5), (-1, 0, 1, -1, 3, 2, 2)


@pytest.mark.parametrize(
  'verifier, shapes, temperature',
  [
    (Greedy(), (WIDE,), 0),
    (Gumbel(), (WIDE, DEEP), [0, 0.7, 1]),
  ],
)
def test_text_is_that_of_plain_decoding(verifier, shapes, temperature):
  settings = SETTINGS | dict(verifier=verifier, temperature=temperature)
  base = specjax.decode(MODEL, PROMPTS, **settings)
  got = specjax.decode(
    MODEL,
    PROMPTS,
    drafter=Bush(shapes, MODEL.target.vocab_size),
    drafter_params=oracle_text(PROMPTS, base),
    **settings,
  )
  assert [done.tokens for done in got] == [done.tokens for done in base]
  assert all(sum(done.accepted_histogram[2:]) for done in got)
