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
from specjax.testing import bushes, chains
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
# See `bushes.nodes`; 'reduced' ones are independent draws from q over VOCAB.
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
  return 1 + max(
    int(bushes.depths(np.array([parents])).max()) for parents in shapes(shape)
  )


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
    noise = _shared_noise(bushes.depths(parents), seed)
  tokens, laws = bushes.nodes(siblings, parents, q, last_two, noise, rng)
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


def _parents(shape: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
  """int[R, N], and how many nodes each row has; what a row lacks is a chain behind."""
  known = shapes(shape)
  nodes = max(map(len, known))
  filled = [(*parents, *range(len(parents) - 1, nodes - 1)) for parents in known]
  turn = np.arange(rows) // 2 % len(known)
  return np.array(filled)[turn], np.array([len(parents) for parents in known])[turn]


def _shared_noise(depth: np.ndarray, seed: int) -> np.ndarray:
  """The target's own noise where each node stands, float64[R, N, V]."""
  rows = len(depth)
  positions = LENGTH + np.tile(np.arange(depth.max()), (rows, 1))
  noise = jax.jit(keys_lib.gumbel)(round_keys(rows, seed), positions)
  return np.take_along_axis(np.asarray(noise, float), depth[..., None] - 1, axis=1)


def target_law(draft: Draft, promise: Promise) -> np.ndarray:
  """What the target says at the root and at each node, float64[R, N + 1, V]."""
  tokens = np.asarray(draft.tokens)
  parents = np.asarray(trees.parents(draft.tree, len(tokens)))
  return promise.at(bushes.contexts(tokens, parents, promise.last_two))


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
