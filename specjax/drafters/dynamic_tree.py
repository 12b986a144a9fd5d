"""EAGLE-2's dynamic tree: in each round the nodes that the drafter finds most probable.

Source: arXiv 2406.16858, section 4. Behind the text stand the `beam` likeliest tokens;
at each further depth the `beam` most probable nodes of the depth above get `beam`
children each. Of all these `num_nodes` are proposed, the most probable by the product
of q along their paths. Beam 2, three depths, five nodes; + is proposed:

  root - a .6 + - aa .5  + - aaa .3  +      a and b are the beam of depth 1,
       |        |          - aab .1         aa and ba that of depth 2
       |        - ab .05
       - b .3 + - ba .2  + - baa .1, bab .05
                - bb .1
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from specjax import checks, trees
from specjax import sampling as sampling_lib
from specjax.drafters import drawing
from specjax.types import Array, Draft, Sampling, Tree


@dataclasses.dataclass(frozen=True)
class DynamicTree:
  """The shape, see `specjax.drafters.growing`.

  q is the drafter's law before temperature, filters and noise: the candidates are
  certain, so any choice among them is exact, for every verifier.

  Raises:
    ValueError: a number below 1; more nodes than there are candidates.
  """

  num_draft: int
  beam: int
  num_nodes: int

  def __post_init__(self):
    for name in ('num_draft', 'beam', 'num_nodes'):
      checks.whole(name, getattr(self, name), 1)
    candidates = self.beam + (self.num_draft - 1) * self.beam**2
    if self.num_nodes > candidates:
      raise ValueError(
        f'num_nodes is {self.num_nodes}, and beam {self.beam} at {self.num_draft} '
        f'depths makes {candidates} candidates: lower num_nodes or raise beam'
      )

  @property
  def num_read(self) -> int:
    """How many nodes are read."""
    return (self.num_draft - 1) * self.beam

  @property
  def widest(self) -> int:
    """The most children of a node."""
    return self.beam

  def grow(
    self, logits: Array, read: Callable, carry, keys, sampling: Sampling, vocab=None
  ) -> tuple[Draft, Any]:
    """A draft behind logits float[B, V_q], and the carry; see `StaticTree.grow`."""
    children = functools.partial(self._children, sampling, vocab)
    root = jnp.full((len(logits), 1), -1, jnp.int32)
    pool = children(logits[:, None], jnp.zeros(root.shape, jnp.float32), root)
    start, inner = 0, root[:, :0]  # of the last depth in the pool; what has children
    for _ in range(1, self.num_draft):
      best = drawing.largest(pool.scores[:, start:], self.beam)
      best = jnp.sort(best, axis=1) + start
      inner = jnp.concatenate([inner, best], axis=1)
      nodes, start = pool.at(inner), pool.tokens.shape[1]
      tree = Tree(grown=_among(inner, nodes.parents))
      logits, carry = read(carry, nodes.tokens, tree, self.beam)
      more = children(logits, pool.at(best).scores, best)
      pool = _Nodes(*(jnp.concatenate(x, axis=1) for x in zip(pool, more)))
    kept, parents = trees.rerank(pool.scores, pool.parents, self.num_nodes)
    num_valid = jnp.full(len(kept), self.num_nodes, jnp.int32)
    tree = Tree(grown=parents, depth=min(self.num_draft, self.num_nodes))
    return Draft(pool.at(kept).tokens, num_valid, tree), carry

  def _children(self, sampling: Sampling, vocab, logits, scores, parents) -> '_Nodes':
    """Of M nodes, with their scores and places in the pool [B, M]; M * beam in all.

    logits: float[B, M, V_q], of what follows each of them.
    """
    logits = sampling_lib.biased(logits.astype(jnp.float32), sampling, vocab)
    total = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    log_q = logits - jnp.maximum(total, jnp.finfo(logits.dtype).min)  # all banned
    columns = drawing.largest(log_q, self.beam)
    own = jnp.take_along_axis(log_q, columns, axis=-1)
    flat = lambda x: jnp.broadcast_to(x, columns.shape).reshape(len(x), -1)
    return _Nodes(
      tokens=flat(drawing.tokens_of(columns, vocab)),
      scores=flat(scores[..., None] + own),
      parents=flat(parents[..., None]),
    )


class _Nodes(NamedTuple):
  """Candidates, by depth and then by path."""

  tokens: Array  # int32[B, M]
  scores: Array  # float32[B, M], log q of the path
  parents: Array  # int32[B, M], among the candidates; -1: the root

  def at(self, index: Array) -> '_Nodes':
    """Those at int32[B, n]."""
    return _Nodes(*(jnp.take_along_axis(x, index, axis=1) for x in self))


def _among(nodes: Array, parents: Array) -> Array:
  """Where each parent stands among the nodes, int32[B, n]; -1 stays.

  nodes 0 2 7, parents -1 -1 2 -> -1 -1 1
  """
  place = jnp.argmax(parents[:, :, None] == nodes[:, None], axis=2)
  return jnp.where(parents < 0, -1, place).astype(jnp.int32)
