"""Counts: what was drafted, offered, accepted and emitted, also where a row is cut."""

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specjax
from specjax import api, decoding
from specjax.drafters.oracle import Oracle
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.model import Model
from specjax.testing.oracle_text import oracle_text
from specjax.testing.table import table_model
from specjax.verifiers.greedy import Greedy
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection

pytestmark = pytest.mark.usefixtures('compile_quickly')

MODEL, V, K = table_model(11), 11, 4
PROMPTS = [[1, 2, 3, 1, 2], [0], [4, 2, 1, 10, 3] * 30]
NEW = [40, 23, 2]


@dataclasses.dataclass(frozen=True)
class Counting:
  """A target that counts the rows it scores, in its cache: (inner cache, int32[])."""

  inner: Any

  @property
  def vocab_size(self) -> int:
    return self.inner.vocab_size

  @property
  def max_positions(self) -> int:
    return self.inner.max_positions

  def init_cache(self, batch: int, slots: int):
    return self.inner.init_cache(batch, slots), jnp.int32(0)

  def __call__(self, params, tokens, positions, cache, **where):
    out = self.inner(params, tokens, positions, cache[0], **where)
    return dataclasses.replace(out, cache=(out.cache, cache[1] + tokens.shape[1]))


COUNTING = Model(Counting(MODEL.target), MODEL.params, MODEL.tokenizer, 'counting')


def run(model, drafter, verifier, drafter_params=None, **settings):
  """Completions, the final state, and the target rows that its rounds computed."""
  settings = dict(max_new_tokens=NEW, stop_ids=()) | settings
  begun = api.begin(model, PROMPTS, drafter, verifier, drafter_params, **settings)
  counts = model is COUNTING
  prefilled = int(begun.state.cache[1]) if counts else 0
  static = begun.target, begun.drafter, begun.verifier
  state = decoding.decode(*static, begun.params, begun.state)
  scored = int(state.cache[1]) - prefilled if counts else None
  done = api.completions(MODEL, begun, state)
  return done, jax.device_get(state.stats), scored


def known_text():
  base = specjax.decode(MODEL, PROMPTS, max_new_tokens=NEW, stop_ids=())
  return oracle_text(PROMPTS, base)


def rounds(trace: list[int]) -> list[int]:
  """Accepted nodes of each round: 1 2 0 0 1 (cut by a stop token) -> 2 0 1."""
  counts = [0]
  for depth in trace:
    assert depth in (0, counts[-1] + 1)
    counts = [*counts[:-1], depth] if depth else [*counts, 0]
  return counts if counts[-1] else counts[:-1]


def check_identities(done, stats):
  for row, completion in enumerate(done):
    accepted = rounds(completion.trace)
    histogram = np.bincount(accepted, minlength=K + 1)
    np.testing.assert_array_equal(completion.accepted_histogram, histogram)
    assert completion.target_calls == len(accepted)
    assert completion.accepted == sum(accepted) == np.count_nonzero(completion.trace)
    cut = completion.trace[-1:] > [0]  # a stop token among the accepted ones
    assert len(completion.tokens) == completion.accepted + len(accepted) - cut
    assert completion.drafted == stats.offered[row].sum()
    at_least = np.cumsum(histogram[::-1])[::-1][1:]  # rounds that accepted depth d
    assert np.all(at_least <= stats.offered[row])
    assert np.all(stats.offered[row] <= len(accepted))


@pytest.mark.parametrize('verifier', [Rejection(), Gumbel()])
@pytest.mark.parametrize('stop_ids', [(), (0,), (3,)])
def test_identities_hold_for_sampled_rows_and_greedy_ones(verifier, stop_ids):
  drafter = PromptLookup(K, max_ngram=3, min_ngram=1)
  for seed in range(20):
    settings = dict(temperature=[0.5, 0, 1], seed=seed, stop_ids=stop_ids)
    done, stats, _ = run(MODEL, drafter, verifier, **settings)
    check_identities(done, stats)


def test_what_a_stop_token_cut_off_was_not_accepted():
  text, cuts = known_text(), set()
  for stop in range(V):
    oracle = Oracle(K, V, script=(4,))
    done, stats, _ = run(COUNTING, oracle, Greedy(), text, stop_ids=(stop,))
    check_identities(done, stats)
    cuts.update(completion.trace[-1] for completion in done)
  assert cuts == {0, 1, 2, 3, 4}


def test_every_node_within_the_budget_counts_as_drafted_and_offered():
  oracle = Oracle(K, V, rates=(0.8,) * K)
  done, stats, _ = run(MODEL, oracle, Gumbel(), known_text())
  check_identities(done, stats)
  for row, completion in enumerate(done):
    offered, left = np.zeros(K, int), NEW[row]
    for accepted in rounds(completion.trace):
      offered += np.arange(K) < left - 1
      left -= accepted + 1
    np.testing.assert_array_equal(stats.offered[row], offered)


def played(script: tuple[int, ...], new: int) -> list[tuple[int, int]]:
  """(offered, accepted) nodes of each round of a row under an oracle's script."""
  result = []
  for wanted in itertools.cycle(script):
    if new == 0:
      return result
    offered = 0 if wanted < 0 else min(K, new - 1)
    result.append((offered, min(max(wanted, 0), offered)))
    new -= result[-1][1] + 1


@pytest.mark.parametrize('script', [(4,), (0,), (-1,), (4, -1, 0, 2, 2, -1, 1, 3)])
def test_an_oracles_script_is_played(script):
  oracle = Oracle(K, V, script=script)
  done, stats, scored = run(COUNTING, oracle, Greedy(), known_text())
  check_identities(done, stats)
  rows = [played(script, new) for new in NEW]
  for completion, want in zip(done, rows):
    offered, accepted = zip(*want)
    histogram = np.bincount(accepted, minlength=K + 1)
    np.testing.assert_array_equal(completion.accepted_histogram, histogram)
    assert completion.drafted == sum(offered)
    assert completion.mean_accepted_length == len(completion.tokens) / len(want)
  # A round in which no row drafts costs each row one token, any other K + 1.
  in_round = itertools.zip_longest(*rows, fillvalue=(0, 0))
  assert scored == sum(K + 1 if any(o for o, _ in row) else 1 for row in in_round)
