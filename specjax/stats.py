"""What a comparison says about token sequences: pure functions on the host.

The definitions are those of statistics.md; examples use 2-grams and short loops.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

LOOP_TIMES = 3  # a loop is a block that stands at least so often
LOOP_TOKENS = 16  # and covers at least so many tokens
POSITIONS = 0, 32, 64, 128, 256, 512, 1024  # where output positions are divided
SOURCES = 'prompt', 'output', 'draft'


def repeat_share(tokens: Sequence[int], n: int = 8) -> float:
  """Share of tokens inside an n-gram seen before in the output (item 6: repeat8).

  n = 2, 5 6 7 5 6: the second (5 6) was seen before, it covers 2 of 5 tokens -> 0.4
  """
  seen: set[tuple[int, ...]] = set()
  repeated = np.zeros(len(tokens), bool)
  for start in range(len(tokens) - n + 1):
    gram = tuple(tokens[start : start + n])
    repeated[start : start + n] |= gram in seen
    seen.add(gram)
  return float(repeated.mean()) if len(tokens) else 0.0


def loop_onset(tokens: Sequence[int], min_tokens: int = LOOP_TOKENS) -> int | None:
  """Where the loop that the output ends in starts; None if it ends in none (item 6).

  A loop is one block, at least three times over and at least min_tokens long.
  min_tokens = 4, 9 7 7 7 7: the block (7) from position 1 on -> 1
  """
  array = np.asarray(tokens)
  onset = None
  for period in range(1, len(array) // LOOP_TIMES + 1):
    differs = np.flatnonzero(array[period:] != array[:-period])
    start = int(differs[-1]) + 1 if differs.size else 0
    if len(array) - start >= max(LOOP_TIMES * period, min_tokens):
      onset = start if onset is None else min(onset, start)
  return onset


def first_difference(tokens: Sequence[int], reference: Sequence[int]) -> int | None:
  """The first position where two outputs differ, or where one ends; None if equal.

  5 6 7 and 5 6 8 -> 2;  5 6 and 5 6 8 -> 2
  """
  for position, (ours, theirs) in enumerate(zip(tokens, reference)):
    if ours != theirs:
      return position
  shorter = min(len(tokens), len(reference))
  return None if len(tokens) == len(reference) else shorter


def tokens_sha256(tokens: Sequence[int]) -> str:
  """A name for a token sequence that is the same on every machine."""
  return hashlib.sha256(np.asarray(tokens, '<i4').tobytes()).hexdigest()


def per_position_acceptance(
  histogram: np.typing.ArrayLike, offered: np.typing.ArrayLike
) -> list[float | None]:
  """Of the rounds that offered a node at depth d, how many accepted it (item 5).

  Args:
    histogram: K + 1 counts of rounds by number of accepted nodes.
    offered: K counts of rounds that proposed a node at depth 1 .. K.

  histogram 3 1 1, offered 4 2 -> 2/4 1/2: one round of the five did not draft
  """
  reached = np.cumsum(np.asarray(histogram)[::-1])[::-1][1:]
  return [float(a / o) if o else None for a, o in zip(reached, np.asarray(offered))]


def by_position(trace: Sequence[int]) -> tuple[list[int], list[int]]:
  """Target calls and the tokens they gave, by where in the output a round began.

  A round ends with the target's own token (trace 0) or with the output. Both lists have
  an entry for each of POSITIONS; tokens / calls is tau at that position (item 5).
  trace 1 2 0 0 1: rounds at 0, 3 and 4 with 3, 1 and 1 tokens -> 3 0 .. and 5 0 ..
  """
  own = np.flatnonzero(np.asarray(trace) == 0) + 1
  starts = np.concatenate([[0], own[own < len(trace)]])
  sizes = np.diff(starts, append=len(trace))
  place = np.searchsorted(POSITIONS, starts, side='right') - 1
  calls = np.bincount(place, minlength=len(POSITIONS))
  tokens = np.bincount(place, sizes, minlength=len(POSITIONS))
  return calls.tolist(), tokens.astype(int).tolist()


def accepted_from(
  prompt: Sequence[int], output: Sequence[int], trace: Sequence[int], n: int = 3
) -> dict[str, int]:
  """Where accepted tokens could be copied from (item 6).

  An accepted token (trace > 0) is of the `prompt` if the n-gram that ends in it stands
  there, else of the `output` if that n-gram ended there before (it may begin in the
  prompt), else it is the drafter's own (`draft`). A text's first n-grams are shorter.

  n = 2, prompt 5 6, output 6 5 6 6 5, trace 0 1 1 1 1: 65 is the drafter's, 56 stands
  in the prompt, 66 and 65 in the output -> prompt 1, output 2, draft 1
  """
  text = [*prompt, *output]
  source: dict[tuple[int, ...], str] = {}
  counts = dict.fromkeys(SOURCES, 0)
  for end in range(1, len(text) + 1):
    gram = tuple(text[max(end - n, 0) : end])
    position = end - 1 - len(prompt)
    if position >= 0 and trace[position]:
      counts[source.get(gram, 'draft')] += 1
    source.setdefault(gram, 'prompt' if position < 0 else 'output')
  return counts
