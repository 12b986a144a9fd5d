"""Eleven mistakes in drafters, verifiers and the loop: the audit finds each of them.

And finds nothing in their right counterparts, with the same seeds.
"""

import dataclasses
import types

import jax
import jax.numpy as jnp
import pytest

from experiments.auditing import decodes, drafters, evidence, examples, verifiers
from specjax import commit, decoding, sampling, trees
from specjax import keys as keys_lib
from specjax.drafters import drawing
from specjax.testing.subjects import Subject
from specjax.types import Context, Draft, Tree, Verdict, Window
from specjax.verifiers import block, rejection, residual, walk

pytestmark = pytest.mark.usefixtures('compile_quickly')
ROWS = 20_000


@dataclasses.dataclass(frozen=True)
class Unigram:
  """Draws from one law everywhere: a chain of three, or three children of the root."""

  vocab_size: int
  parents: tuple[int, ...]
  mistake: str = ''
  num_draft = num_nodes = 3
  feature_layers = ()

  def init(self, params, batch: int, max_len: int) -> None:
    """No state."""

  def update(self, params, state: None, window: Window) -> None:
    """Nothing to learn."""

  def propose(self, params, state: None, context: Context, keys):
    batch = len(context.length)
    law = jnp.arange(self.vocab_size) / 2.0
    logits = jnp.broadcast_to(law, (batch, self.vocab_size))
    drawn = [drawing.draw(keys, n, logits, context.sampling) for n in range(4)]
    tokens = jnp.stack([token for token, _ in drawn], axis=1)
    draft = Draft(tokens[:, :3], jnp.full(batch, 3), Tree(static=self.parents))
    if drawn[0][1] is None:
      return draft, state
    log_q = jnp.stack([law for _, law in drawn], axis=1)
    draft = dataclasses.replace(draft, log_q=log_q[:, :3])
    return MISTAKES[self.mistake](draft, tokens, logits), state


def not_warped(draft: Draft, tokens, logits) -> Draft:
  raw = jax.nn.log_softmax(logits)[:, None]
  return dataclasses.replace(draft, log_q=jnp.broadcast_to(raw, draft.log_q.shape))


def drops_the_unlikely(draft: Draft, tokens, logits) -> Draft:
  own = jnp.take_along_axis(draft.log_q, draft.tokens[..., None], axis=-1)[..., 0]
  sure = jnp.cumprod(own > -1.2, axis=1)
  return dataclasses.replace(draft, num_valid=jnp.sum(sure, axis=1, dtype=jnp.int32))


def reranks(draft: Draft, tokens, logits) -> Draft:
  """Keeps the likeliest three of four."""
  scores = jnp.take_along_axis(draft.log_q[:, 0], tokens, axis=-1)
  kept, parents = trees.rerank(scores, jnp.full(tokens.shape, -1), 3)
  return dataclasses.replace(
    draft, tokens=jnp.take_along_axis(tokens, kept, axis=1), tree=Tree(grown=parents)
  )


def merges(draft: Draft, tokens, logits) -> Draft:
  """Leaves the siblings out that repeat an elder one."""
  a, b, c = draft.tokens.T
  fresh = jnp.stack([a == a, b != a, (c != a) & (c != b)], axis=1)
  order = jnp.argsort(~fresh, axis=1, stable=True)
  return dataclasses.replace(
    draft,
    tokens=jnp.take_along_axis(draft.tokens, order, axis=1),
    num_valid=jnp.sum(fresh, axis=1, dtype=jnp.int32),
  )


MISTAKES = {
  '': lambda draft, tokens, logits: draft,
  'q before warping': not_warped,
  'a node dropped for its own confidence': drops_the_unlikely,
  'rerank over sampled children': reranks,
  'duplicate siblings merged': merges,
}
CHAIN, SIBLINGS = (-1, 0, 1), (-1, -1, -1)


def drafter(parents, mistake: str = '') -> Subject:
  make = lambda model: (Unigram(model.target.vocab_size, parents, mistake), None)
  return Subject(mistake or 'unigram', make)


@dataclasses.dataclass(frozen=True)
class Named(rejection.Rejection):
  """A static argument of its own, so that what was patched is traced."""

  name: str


class ByPosition(block.Block):
  """Coins and residual noise keyed by where a token stands, not by the round."""

  def __call__(self, keys, draft: Draft, log_p) -> Verdict:
    at = lambda ahead: dataclasses.replace(keys, length=keys.length + ahead)
    nodes = draft.tokens.shape[1]
    if nodes == 0:
      return super().__call__(keys, draft, log_p)
    coins = [keys_lib.uniforms(at(n), keys_lib.ACCEPT, 1) for n in range(nodes)]
    weights, keep = block.weigh(draft, log_p)
    passes = jnp.concatenate(coins, axis=1) < keep
    depth = jnp.arange(1, nodes + 1)
    passes &= depth <= draft.num_valid[:, None]
    count = jnp.max(jnp.where(passes, depth, 0), axis=1)
    scale = walk.at_row(weights, count)
    return residual.corrected(at(count), draft, log_p, count, scale)


def bonus_from_residual(patch) -> None:
  real = residual.corrected

  def corrected(keys, draft, *rest):
    more = dataclasses.replace(draft, num_valid=draft.num_valid + 1)
    return real(keys, more, *rest)

  patch.setattr(residual, 'corrected', corrected)


def no_residual(patch) -> None:
  patch.setattr(residual, 'log_residual', lambda log_p, *rest: log_p)


def coin_of_the_draft(patch) -> None:
  patch.setattr(keys_lib, 'ACCEPT', keys_lib.DRAFT)


def warp_with(patch, warp) -> None:
  both = types.SimpleNamespace(warp=warp, biased=sampling.biased)
  patch.setattr(decoding, 'sampling', both)


def filters_before_temperature(patch) -> None:
  def warp(logits, rules):
    ones, zeros = jnp.ones_like(rules.top_p), jnp.zeros_like(rules.top_p)
    warm = jnp.where(rules.temperature > 0, ones, zeros)
    filtered = sampling.warp(logits, dataclasses.replace(rules, temperature=warm))
    off = dict(top_k=rules.top_k * 0, top_p=ones, min_p=zeros, logit_bias=None)
    return sampling.warp(filtered, dataclasses.replace(rules, **off))

  warp_with(patch, warp)


def greedy_rows_are_divided(patch) -> None:
  def warp(logits, rules):
    some = jnp.maximum(rules.temperature, 1e-6)
    return sampling.warp(logits, dataclasses.replace(rules, temperature=some))

  warp_with(patch, warp)


def counts_past_a_stop(patch) -> None:
  real = commit._counted

  def counted(stats, draft, verdict, count, was_done):
    return real(stats, draft, verdict, verdict.num_accepted + 1, was_done)

  patch.setattr(commit, '_counted', counted)


def given(rule: Subject) -> list:
  return verifiers.outputs([rule], 'chain', 'independent', ROWS, 0)


def one_round(rule: Subject, parents=CHAIN, mistake: str = '') -> list:
  return drafters.checks(drafter(parents, mistake), rule, ROWS, 0)


def whole_texts(rule: Subject) -> list:
  return decodes.checks(drafter(CHAIN), rule, ROWS, 0)


def block_texts(rule: Subject) -> list:
  """With drafts that block verification often looks ahead in."""
  return decodes.checks(examples.drafter('draft_model'), rule, ROWS, 0)


def failed(cells) -> set[str]:
  rows = evidence.judged(cells)
  assert {row['status'] for row in rows} <= {'pass', 'FAIL'}, rows
  return {row['check'] for row in rows if row['status'] == 'FAIL'}


RIGHT = Subject('rejection', rejection.Rejection)


@pytest.mark.parametrize(
  'audit, rule',
  [
    (given, RIGHT),
    (one_round, RIGHT),
    (lambda rule: one_round(rule, SIBLINGS), RIGHT),
    (whole_texts, RIGHT),
    (block_texts, Subject('block', block.Block)),
  ],
)
def test_what_is_right_passes(audit, rule):
  cells = audit(rule)
  assert not failed(cells) and cells


@pytest.mark.parametrize(
  'change, audit, check',
  [
    (bonus_from_residual, given, 'law'),
    (no_residual, given, 'law'),
    (coin_of_the_draft, one_round, 'law'),
    (filters_before_temperature, whole_texts, 'law'),
    (greedy_rows_are_divided, whole_texts, 'greedy'),
    (counts_past_a_stop, whole_texts, 'counts'),
  ],
)
def test_a_change_of_our_code_is_found(change, audit, check, monkeypatch):
  name = change.__name__
  change(monkeypatch)
  assert check in failed(audit(Subject(name, lambda: Named(name))))


def test_block_verification_keyed_by_position_is_found():
  assert failed(block_texts(Subject('by position', ByPosition))) == {'law'}


@pytest.mark.parametrize(
  'mistake, parents, checks',
  [
    ('q before warping', CHAIN, {'follows log_q', 'law', 'accepted'}),
    ('a node dropped for its own confidence', CHAIN, {'follows log_q', 'law'}),
    ('rerank over sampled children', SIBLINGS, {'follows log_q', 'law'}),
    ('duplicate siblings merged', SIBLINGS, {'follows log_q', 'independent'}),
  ],
)
def test_a_drafters_mistake_is_found(mistake, parents, checks):
  assert failed(one_round(RIGHT, parents, mistake)) >= checks
