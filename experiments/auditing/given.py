"""Drafts made on the host from known laws, and what a verifier makes of a draft.

The drafter's law q, like the target's, depends on the last two tokens. Chains and
trees, static and grown; each row has its own number of valid nodes.
"""

import jax
import jax.numpy as jnp
import numpy as np

from experiments.auditing import requests
from experiments.auditing.requests import Promise, V
from specjax import keys as keys_lib
from specjax import trees
from specjax.testing import chains
from specjax.types import Draft, Tree, Verdict

LENGTH = 7  # committed tokens of each row
SHAPES = {  # parents
  'chain': (-1, 0, 1),
  '2-1': (-1, -1, 0, 1),
  '2-2': (-1, -1, 0, 0, 1, 1),
  '3-1': (-1, -1, -1, 0, 1, 2),
  'deep': (-1, -1, 0, 0, 1, 2, 5),
}
# 'grown': rows take turns; the last shape stands depth first.
GROWN = (*SHAPES.values(), (-1, 0, 1, -1, 0, 3, 2))
PERIOD = 2 * len(GROWN)  # rows after which shapes and numbers of nodes come again
VOCAB = np.array([2, 0])  # a reduced draft vocabulary, not in order
# How siblings are chosen. Those without replacement carry the law that their elder
# siblings left; the last two are deterministic given q, or q and the target's noise.
SIBLINGS = 'independent', 'distinct', 'reduced', 'likeliest', 'shared noise'


def round_keys(rows: int, seed: int) -> keys_lib.RoundKeys:
  """A seed a row."""
  seeds = ((seed * rows + np.arange(rows)) % 2**32).astype(np.uint32)
  return keys_lib.row_keys(jnp.asarray(seeds), jnp.full(rows, LENGTH), V)


def shapes(shape: str) -> tuple[tuple[int, ...], ...]:
  """The parents that rows of this shape take turns with."""
  return GROWN if shape == 'grown' else (SHAPES[shape],)


def text_length(shape: str) -> int:
  """Tokens that a row may emit: the deepest path, and one more."""
  return 1 + max(int(depths(np.array([parents])).max()) for parents in shapes(shape))


def propose(
  shape: str, siblings: str, q: np.ndarray, last_two: np.ndarray, seed: int
) -> Draft:
  """A draft on the host behind tokens int[R, 2], by a drafter with q float64[V, V, V].

  All nodes are valid in every second row, any number of them in the others.
  """
  rng, rows = np.random.default_rng([1, seed]), len(last_two)
  parents, count = _parents(shape, rows)
  if siblings == 'reduced':
    q = np.where(np.isin(np.arange(V), VOCAB), q, 0)
    q = q / q.sum(axis=-1, keepdims=True)
  noise = np.zeros((*parents.shape, V))
  if siblings == 'shared noise':
    noise = _shared_noise(depths(parents), seed)
  tokens, laws = _nodes(siblings, parents, q, last_two, noise, rng)
  vocab = VOCAB if siblings == 'reduced' else None
  with np.errstate(divide='ignore'):
    log_q = np.log(laws if vocab is None else laws[..., vocab]).astype(np.float32)
  certain = siblings in ('likeliest', 'shared noise')
  some = rng.integers(0, count + 1)
  valid = np.where(np.arange(rows) % 2, some, count)
  grown = Tree(grown=jnp.asarray(parents, jnp.int32)) if shape == 'grown' else None
  draft = Draft(
    tokens=jnp.asarray(tokens, jnp.int32),
    num_valid=jnp.asarray(valid, jnp.int32),
    tree=grown or Tree(static=SHAPES[shape]),
    log_q=None if certain else jnp.asarray(log_q),
    vocab=None if vocab is None else jnp.asarray(vocab, jnp.int32),
  )
  return jax.device_get(draft)


def _nodes(siblings: str, parents, q, last_two, noise, rng):
  """Tokens int[R, N], and the law float64[R, N, V] that each was chosen by."""
  tokens, laws = np.zeros(parents.shape, int), np.zeros((*parents.shape, V))
  rows = np.arange(len(tokens))
  for node in range(parents.shape[1]):
    context = contexts(tokens[:, :node], parents, last_two)
    above = context[rows, parents[:, node] + 1]
    law, taken = q[above[:, 0], above[:, 1]], _taken(tokens, parents, node)
    if siblings == 'distinct':
      law = np.where(taken, 0, law)
      law = law / law.sum(axis=-1, keepdims=True)
    if siblings in ('likeliest', 'shared noise'):
      score = np.where(taken, -np.inf, np.log(law) + noise[:, node])
      tokens[:, node] = np.argmax(score, axis=-1)
    else:
      tokens[:, node] = chains.draws(law, rng)
    laws[:, node] = law
  return tokens, laws


def _parents(shape: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
  """int[R, N], and how many nodes each row has; what a row lacks is a chain behind."""
  known = shapes(shape)
  nodes = max(map(len, known))
  filled = [(*parents, *range(len(parents) - 1, nodes - 1)) for parents in known]
  turn = np.arange(rows) // 2 % len(known)
  return np.array(filled)[turn], np.array([len(parents) for parents in known])[turn]


def _taken(tokens: np.ndarray, parents: np.ndarray, node: int) -> np.ndarray:
  """The tokens of a node's elder siblings, bool[R, V]."""
  sibling = parents[:, :node] == parents[:, node : node + 1]
  mine = tokens[:, :node, None] == np.arange(V)
  return np.any(mine & sibling[..., None], axis=1)


def _shared_noise(depth: np.ndarray, seed: int) -> np.ndarray:
  """The target's own noise where each node stands, float64[R, N, V]."""
  rows = len(depth)
  positions = LENGTH + np.tile(np.arange(depth.max()), (rows, 1))
  noise = jax.jit(keys_lib.gumbel)(round_keys(rows, seed), positions)
  return np.take_along_axis(np.asarray(noise, float), depth[..., None] - 1, axis=1)


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


def target_law(draft: Draft, promise: Promise) -> np.ndarray:
  """What the target says at the root and at each node, float64[R, N + 1, V]."""
  tokens = np.asarray(draft.tokens)
  parents = np.asarray(trees.parents(draft.tree, len(tokens)))
  return promise.at(contexts(tokens, parents, promise.last_two))


def judge(verifier, keys, draft: Draft, law: np.ndarray) -> Verdict:
  """The jitted verifier's verdict, on the host; law float64[R, N + 1, V]."""
  with np.errstate(divide='ignore'):
    log_p = np.log(law).astype(np.float32)
  return jax.device_get(chains.verify(verifier, keys, draft, log_p))


def emitted(
  draft: Draft, verdict: Verdict, promise: Promise, length: int, seed: int
) -> np.ndarray:
  """What each row emits, by the number of its first `length` tokens, int[R].

  Accepted nodes, then the next token, then what follows by the target's law.
  """
  rng, rows = np.random.default_rng([2, seed]), np.arange(len(draft.tokens))
  context, tokens = promise.last_two, []
  for depth in range(length):
    token = chains.draws(promise.at(context), rng)
    token = np.where(depth == verdict.num_accepted, verdict.next_token, token)
    if depth < verdict.path.shape[1]:
      node = np.asarray(draft.tokens)[rows, verdict.path[:, depth]]
      token = np.where(depth < verdict.num_accepted, node, token)
    tokens.append(token)
    context = np.stack([context[:, 1], token], axis=1)
  return requests.cells(np.stack(tokens, axis=1))
