"""Many small drafted trees at once: what `chains` has, with siblings."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from specjax import trees
from specjax.testing import chains, laws
from specjax.types import Draft, Tree

KINDS = 'distinct', 'independent', 'likeliest', 'shared noise'  # see `nodes`
# root - 0 - 00 - 000
#      |    - 01
#      - 1 - 10
PATHS = (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)
N = len(PATHS)


def propose(
  kind: str,
  logits: np.ndarray,
  num_valid: np.ndarray,
  paths: Sequence[tuple[int, ...]] = PATHS,
  grown: bool = False,
) -> Draft:
  """A tree behind token 0 by a drafter of these logits [V, V], by the last token.

  grown: the same shape in every row, but as data.
  """
  rows, law = len(num_valid), np.apply_along_axis(laws.warped, -1, logits)
  shape = trees.from_paths(paths)
  parents = np.tile(np.array(shape.static), (rows, 1))
  noise = np.zeros((*parents.shape, law.shape[1]))
  if kind == 'shared noise':
    noise = chains.shared_noise(rows)[:, depths(parents[:1])[0] - 1]
  start, rng = np.zeros((rows, 2), int), np.random.default_rng(1)
  by_last_two = np.broadcast_to(law, (len(law), *law.shape))
  tokens, drawn_from = nodes(kind, parents, by_last_two, start, noise, rng)
  certain = kind in ('likeliest', 'shared noise')
  with np.errstate(divide='ignore'):
    log_q = None if certain else jnp.asarray(np.log(drawn_from), jnp.float32)
  return Draft(
    tokens=jnp.asarray(tokens, jnp.int32),
    num_valid=jnp.asarray(num_valid, jnp.int32),
    tree=Tree(grown=jnp.asarray(parents, jnp.int32)) if grown else shape,
    log_q=log_q,
  )


def nodes(siblings: str, parents, q, last_two, noise, rng):
  """Tokens int[R, N], and the law float64[R, N, V] that each was chosen by.

  Args:
    siblings: 'distinct', drawn without replacement, so that a law has lost the elders;
      'likeliest', or 'shared noise', the likeliest after it was added to log q; any
      other word: drawn from q, with replacement.
    parents: int[R, N].
    q: float64[V, V, V], the law behind any two tokens.
    last_two: int[R, 2], what the text ends with.
    noise: float64[R, N, V], zeros or the target's own where each node stands.
  """
  vocab_size, rows = q.shape[2], np.arange(len(parents))
  tokens = np.zeros(parents.shape, int)
  chosen_by = np.zeros((*parents.shape, vocab_size))
  for node in range(parents.shape[1]):
    context = contexts(tokens[:, :node], parents, last_two)
    above = context[rows, parents[:, node] + 1]
    law, taken = q[above[:, 0], above[:, 1]], _taken(tokens, parents, node, vocab_size)
    if siblings == 'distinct':
      law = np.where(taken, 0, law)
      law = law / law.sum(axis=-1, keepdims=True)
    if siblings in ('likeliest', 'shared noise'):
      score = np.where(taken, -np.inf, np.log(law) + noise[:, node])
      tokens[:, node] = np.argmax(score, axis=-1)
    else:
      tokens[:, node] = chains.draws(law, rng)
    chosen_by[:, node] = law
  return tokens, chosen_by


def _taken(tokens: np.ndarray, parents: np.ndarray, node: int, vocab_size: int):
  """The tokens of a node's elder siblings, bool[R, V]."""
  sibling = parents[:, :node] == parents[:, node : node + 1]
  mine = tokens[:, :node, None] == np.arange(vocab_size)
  return np.any(mine & sibling[..., None], axis=1)


def depths(parents: np.ndarray) -> np.ndarray:
  """Generations below the root of each node, int[R, N] from 1 on."""
  rows, nodes = np.arange(len(parents)), parents.shape[1]
  depth = np.zeros((len(parents), nodes + 1), int)
  for node in range(nodes):
    depth[:, node + 1] = depth[rows, parents[:, node] + 1] + 1
  return depth[:, 1:]


def contexts(tokens: np.ndarray, parents: np.ndarray, last_two) -> np.ndarray:
  """The two tokens that end at the root and at each node, int[R, N + 1, 2]."""
  rows, nodes = np.arange(len(tokens)), tokens.shape[1]
  found = np.empty((len(rows), nodes + 1, 2), int)
  found[:, 0] = last_two
  for node in range(nodes):
    found[:, node + 1, 0] = found[rows, parents[:, node] + 1, 1]
    found[:, node + 1, 1] = tokens[:, node]
  return found
