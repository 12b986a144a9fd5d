"""What any completion must satisfy, whatever drafted and verified it."""

import numpy as np

from specjax import api


def check_counts(
  done: api.Completion, offered: np.ndarray, cap: int, chain: bool
) -> None:
  """Emitted tokens, and nothing else, were counted."""
  cut = done.trace[-1:] > [0]  # the last round ended among its accepted tokens
  calls, accepted = done.target_calls, np.count_nonzero(done.trace)
  in_rounds = np.arange(len(done.accepted_histogram)) * done.accepted_histogram
  assert sum(done.accepted_histogram) == calls
  assert done.accepted == accepted == in_rounds.sum() <= done.drafted
  assert len(done.tokens) == accepted + calls - cut
  assert offered.sum() == done.drafted or not chain  # a tree has more nodes a depth
  assert offered.sum() <= done.drafted <= cap * calls


def scored(prompt, tokens, tables) -> np.ndarray:
  """log p of the tokens, teacher-forced through the tables in float64."""
  logits = np.sum([np.asarray(table, np.float64) for table in tables], axis=0)
  log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
  text = [0, *prompt, *tokens]
  ends = range(len(prompt) + 2, len(text) + 1)
  return np.array([log_p[tuple(text[end - 3 : end])] for end in ends])


def greedy_trace(best, tokens, cap: int) -> list[int]:
  """The trace of a greedy row whose drafter, at its i-th new token, holds best[i] best.

  best 4 4 8, tokens 4 4 5, cap 2 -> 1 2 0
  """
  trace: list[int] = []
  while len(trace) < len(tokens):
    here = len(trace)
    ahead = range(here, min(here + cap, len(tokens) - 1))
    wrong = [i for i in ahead if best[i] != tokens[i]]
    accepted = (wrong[0] if wrong else ahead.stop) - here
    trace += [*range(1, accepted + 1), 0]
  return trace
