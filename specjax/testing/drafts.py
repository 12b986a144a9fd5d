"""Drafts looked at on the host: are they well-formed, equal, drawn from their law?"""

import numpy as np
from scipy import stats

from specjax import trees
from specjax.types import Draft


def check_types(draft: Draft, num_draft: int, num_nodes: int, batch: int) -> None:
  """Raises AssertionError where a shape or type is not that of `specjax.types.Draft`.

  Args:
    draft: arrays, or the shapes of `jax.eval_shape`.
    num_draft, num_nodes: what the drafter declares: buffers have room for no more.
  """
  nodes = draft.tokens.shape[-1]
  assert nodes <= num_nodes, f'{nodes} nodes, it declares num_nodes = {num_nodes}'
  want = dict(tokens=('int32', (batch, nodes)), num_valid=('int32', (batch,)))
  if draft.vocab is not None:
    want['vocab'] = 'int32', (len(draft.vocab),)
  if draft.log_q is not None:
    width = draft.log_q.shape[-1] if draft.vocab is None else len(draft.vocab)
    want['log_q'] = 'float32', (batch, nodes, width)
  for name, (dtype, shape) in want.items():
    _check_array(name, getattr(draft, name), dtype, shape)
  static, grown = draft.tree.static, draft.tree.grown
  assert (static is None) != (grown is None), 'a tree is either static or grown'
  if grown is not None:
    _check_array('tree.grown', grown, 'int32', (batch, nodes))
  if static is not None:
    assert len(static) == nodes, f'{nodes} tokens on a tree of {len(static)} nodes'
  if static is not None or draft.tree.depth is not None:
    depth = trees.max_depth(draft.tree)
    assert depth <= num_draft, f'{depth} deep, it declares num_draft = {num_draft}'


def _check_array(name: str, array, dtype: str, shape: tuple[int, ...]) -> None:
  got = f'{array.dtype}{list(array.shape)}'
  assert got == f'{dtype}{list(shape)}', f'{name} is {got}, not {dtype}{list(shape)}'


def check_values(draft: Draft, vocab_size: int) -> None:
  """Raises AssertionError where a number is out of its range.

  Tokens of all nodes, since the target scores them all; laws of those that count.
  """
  batch, nodes = draft.tokens.shape
  low, high = np.min(draft.tokens, initial=0), np.max(draft.tokens, initial=0)
  assert 0 <= low and high < vocab_size, (
    f'tokens from {low} to {high}, the target knows 0 to {vocab_size - 1}; those of '
    'nodes that do not count are scored as well'
  )
  few, many = draft.num_valid.min(), draft.num_valid.max()
  assert 0 <= few and many <= nodes, f'num_valid from {few} to {many} of {nodes} nodes'
  parents = np.asarray(trees.parents(draft.tree, batch))
  above = (parents >= -1) & (parents < np.arange(nodes))
  valid = np.arange(nodes) < draft.num_valid[:, None]
  assert np.all(above | ~valid), 'a parent stands behind its child'
  generations = _generations(np.where(above, parents, -1))
  assert np.all((generations <= trees.max_depth(draft.tree)) | ~valid), (
    f'a tree that says it is {trees.max_depth(draft.tree)} deep is {generations.max()}'
  )
  if draft.log_q is None:
    return
  if draft.vocab is not None:
    known = np.unique(draft.vocab)
    assert len(known) == len(draft.vocab), 'vocab names a token twice'
    assert 0 <= known[0] and known[-1] < vocab_size, 'vocab is not within the target'
    assert np.all(np.isin(draft.tokens, known) | ~valid), 'a token outside its vocab'
  total = np.exp(draft.log_q.astype(np.float64)).sum(axis=-1)
  assert np.all((np.abs(total - 1) < 1e-4) | ~valid), (
    f'log_q is not normalised: it sums to {total[valid].min()} .. {total[valid].max()}'
  )
  own = np.take_along_axis(np.asarray(draft.log_q), columns(draft)[..., None], axis=-1)
  own = own[..., 0]
  assert np.all((own > -np.inf) | ~valid), 'a token was drafted that log_q rules out'


def _generations(parents: np.ndarray) -> np.ndarray:
  """Each node's depth, int[B, N]; the root's is 0."""
  rows = np.arange(len(parents))
  depth = np.zeros((len(rows), parents.shape[1] + 1), int)
  for node, parent in enumerate(parents.T):  # column -1 is the root's
    depth[:, node] = depth[rows, parent] + 1
  return depth[:, :-1]


def columns(draft: Draft) -> np.ndarray:
  """Where each node's token stands in log_q, int[B, N]."""
  if draft.vocab is None:
    return np.asarray(draft.tokens)
  return np.argmax(draft.vocab == draft.tokens[..., None], axis=-1)


def difference(one: Draft, other: Draft, row: int, other_row: int) -> str | None:
  """Says how the valid nodes of two rows differ; log q by more than 1e-5 counts."""
  valid = one.num_valid[row]
  tokens, others = one.tokens[row][:valid], other.tokens[other_row]
  others = others[: other.num_valid[other_row]]
  if tokens.tolist() != others.tolist():
    return f'{tokens.tolist()} was drafted, but {others.tolist()}'
  parents = [
    np.asarray(trees.parents(draft.tree, len(draft.tokens)))[at, :valid]
    for draft, at in ((one, row), (other, other_row))
  ]
  if np.any(parents[0] != parents[1]):
    return f'the tree had parents {parents[0].tolist()}, but {parents[1].tolist()}'
  if one.log_q is None or other.log_q is None:
    return None if one.log_q is other.log_q else 'log_q was None only once:'
  log_q, log_r = one.log_q[row, :valid], other.log_q[other_row, :valid]
  if np.allclose(log_q, log_r, rtol=0, atol=1e-5):
    return None
  with np.errstate(invalid='ignore'):
    most = np.nanmax(np.abs(log_q - log_r))
  return f'log_q was another by up to {most:.2g} than'


def places_in_law(draft: Draft, rng: np.random.Generator) -> np.ndarray:
  """Where each token fell in [0, 1), its law laid out likeliest first; float[B, N].

  Uniform, and independent of one another, exactly if tokens were drawn from log_q, each
  given its elder siblings. NaN for nodes that do not count.
  """
  index, q = columns(draft)[..., None], np.exp(np.asarray(draft.log_q, np.float64))
  own = np.take_along_axis(q, index, axis=-1)
  before = (q > own) | ((q == own) & (np.arange(q.shape[-1]) < index))
  place = np.sum(q * before, axis=-1) + rng.random(index.shape[:-1]) * own[..., 0]
  counts = np.arange(place.shape[1]) < draft.num_valid[:, None]
  return np.where(counts, place, np.nan)


def pairs(draft: Draft, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Places of nodes beside their parents'; of any two nodes of a row; float[R, 2]."""
  parents = np.asarray(trees.parents(draft.tree, len(place)))
  above = np.take_along_axis(place, np.maximum(parents, 0), axis=1)
  above = np.where(parents < 0, np.nan, above)
  one, other = np.triu_indices(place.shape[1], 1)
  beside = lambda x, y: np.stack([x, y], axis=-1).reshape(-1, 2)
  return beside(above, place), beside(place[:, one], place[:, other])


def p_value_of_uniform(points: np.ndarray, bins: int) -> float:
  """Chi-square of float[...] against the uniform law on [0, 1); NaN is left out."""
  points = points[~np.isnan(points)]
  seen, _ = np.histogram(points, _edges(bins))
  return _or_too_few(seen, lambda: stats.chisquare(seen).pvalue)


def p_value_of_independence(pairs: np.ndarray, bins: int) -> float:
  """Chi-square of float[R, 2] in [0, 1); NaN is left out. One place may be in many."""
  pairs = pairs[~np.any(np.isnan(pairs), axis=1)]
  seen, _ = np.histogramdd(pairs, bins=[_edges(bins)] * 2)
  return _or_too_few(seen, lambda: stats.chi2_contingency(seen).pvalue)


def _edges(bins: int) -> np.ndarray:
  return np.linspace(0, 1 + 1e-6, bins + 1)


def _or_too_few(seen: np.ndarray, p_value) -> float:
  """1 where there are fewer than five a cell."""
  return 1.0 if seen.sum() < 5 * seen.size else float(p_value())
