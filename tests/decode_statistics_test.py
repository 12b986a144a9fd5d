"""Counts: what was drafted, offered, accepted and emitted, also where a row is cut."""

import jax
import numpy as np
import pytest

import specjax
from specjax import api, decoding
from specjax.drafters.oracle import Oracle
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.testing.oracle_text import oracle_text
from specjax.testing.table import table_model
from specjax.verifiers.greedy import Greedy
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection

MODEL, V, K = table_model(5, seed=1), 5, 4
PROMPTS = [[1, 2, 3, 1, 2], [0], [4, 2, 1, 0, 3] * 30]
NEW = [40, 23, 2]


def run(drafter, verifier, drafter_params=None, **settings):
  """Completions, and the statistics as they stand in the state."""
  settings = dict(max_new_tokens=NEW, stop_ids=()) | settings
  begun = api.begin(MODEL, PROMPTS, drafter, verifier, drafter_params, **settings)
  static = begun.target, begun.drafter, begun.verifier
  state = decoding.decode(*static, begun.params, begun.state)
  done = api.completions(MODEL, begun.prompt_lengths, state)
  return done, jax.device_get(state.stats)


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
    check_identities(*run(drafter, verifier, **settings))


def test_what_a_stop_token_cut_off_was_not_accepted():
  text, cuts = known_text(), set()
  for stop in range(V):
    done, stats = run(Oracle(K, V, script=(4,)), Greedy(), text, stop_ids=(stop,))
    check_identities(done, stats)
    cuts.update(completion.trace[-1] for completion in done)
  assert cuts > {1, 2, 3}


def test_every_node_within_the_budget_counts_as_drafted_and_offered():
  oracle = Oracle(K, V, rates=(0.9, 0.8, 0.7, 0.6))
  done, stats = run(oracle, Greedy(), known_text())
  check_identities(done, stats)
  for row, completion in enumerate(done):
    offered, left = np.zeros(K, int), NEW[row]
    for accepted in rounds(completion.trace):
      offered += np.arange(K) < left - 1
      left -= accepted + 1
    np.testing.assert_array_equal(stats.offered[row], offered)


def played(script: tuple[int, ...], new: int) -> tuple[list[int], int]:
  """Histogram and drafted nodes of a row under an oracle's script."""
  histogram, drafted, turn = [0] * (K + 1), 0, 0
  while new > 0:
    wanted = script[turn % len(script)]
    offered = 0 if wanted < 0 else min(K, new - 1)
    accepted = min(max(wanted, 0), offered)
    histogram[accepted] += 1
    drafted += offered
    new -= accepted + 1
    turn += 1
  return histogram, drafted


@pytest.mark.parametrize('script', [(4,), (0,), (-1,), (4, -1, 0, 2, 2, -1, 1, 3)])
def test_an_oracles_script_is_played(script):
  done, stats = run(Oracle(K, V, script=script), Greedy(), known_text())
  check_identities(done, stats)
  for completion, new in zip(done, NEW):
    histogram, drafted = played(script, new)
    assert completion.accepted_histogram == histogram
    assert completion.drafted == drafted
    assert completion.mean_accepted_length == new / sum(histogram)
