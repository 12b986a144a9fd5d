"""Many small drafted trees at once: what `chains` has, with siblings."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from specjax import trees
from specjax.testing import chains, laws
from specjax.types import Draft, Tree

# How siblings are chosen: drawn without and with replacement, the likeliest ones, and
# those that the target's own noise makes likeliest.
KINDS = 'distinct', 'independent', 'likeliest', 'shared noise'
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
  rng, rows = np.random.default_rng(1), len(num_valid)
  law = np.apply_along_axis(laws.warped, -1, logits)
  place = {path: node for node, path in enumerate(paths)}
  tokens, log_q = np.zeros((rows, len(paths)), int), []
  for path, node in place.items():
    parent = place[path[:-1]] if path[1:] else None
    mine = law[np.zeros(rows, int) if parent is None else tokens[:, parent]]
    elders = [tokens[:, place[*path[:-1], rank]] for rank in range(path[-1])]
    if kind == 'distinct':
      mine = _without(mine, elders)
    tokens[:, node] = _choose(kind, mine, len(path) - 1, path[-1], rng)
    log_q.append(mine)
  drawn = kind in ('distinct', 'independent')
  with np.errstate(divide='ignore'):
    log_law = np.log(np.stack(log_q, axis=1)) if drawn else None
  parents = [-1 if not path[1:] else place[path[:-1]] for path in paths]
  return Draft(
    tokens=jnp.asarray(tokens, jnp.int32),
    num_valid=jnp.asarray(num_valid, jnp.int32),
    tree=Tree(grown=jnp.array([parents] * rows)) if grown else trees.from_paths(paths),
    log_q=None if log_law is None else jnp.asarray(log_law, jnp.float32),
  )


def _without(law: np.ndarray, elders: Sequence[np.ndarray]) -> np.ndarray:
  """The law [rows, V] given that these tokens are taken."""
  left = law.copy()
  for tokens in elders:
    left[np.arange(len(law)), tokens] = 0.0
  return left / left.sum(axis=1, keepdims=True)


def _choose(kind: str, law, depth: int, rank: int, rng) -> np.ndarray:
  if kind in ('distinct', 'independent'):
    return chains.draws(law, rng)
  score = law
  if kind == 'shared noise':
    score = np.log(law) + chains.shared_noise(len(law))[:, depth]
  return np.argsort(-score, axis=1, kind='stable')[:, rank]
