"""Numbers about token sequences, against examples worked by hand."""

import pytest

from specjax import stats


@pytest.mark.parametrize(
  ('tokens', 'n', 'share'),
  [([5, 6, 7, 5, 6], 2, 0.4), ([1, 1, 1, 1], 2, 0.75), ([1, 2, 3], 2, 0), ([], 8, 0)],
)
def test_repeat_share(tokens, n, share):
  assert stats.repeat_share(tokens, n) == share


@pytest.mark.parametrize(
  ('tokens', 'onset'),
  [
    ([9, 7, 7, 7, 7], 1),
    ([9, 8, 1, 2, 1, 2, 1, 2], 2),
    ([1, 2, 1, 2, 9], None),  # it got out again
    ([1, 2, 3, 1, 2, 3], None),  # twice is not three times
    ([9, 7, 7, 7], None),  # shorter than min_tokens
  ],
)
def test_loop_onset(tokens, onset):
  assert stats.loop_onset(tokens, min_tokens=4) == onset


def test_first_difference():
  assert stats.first_difference([5, 6, 7], [5, 6, 8]) == 2
  assert stats.first_difference([5, 6], [5, 6, 8]) == 2
  assert stats.first_difference([5, 6], [5, 6]) is None


def test_per_position_acceptance():
  assert stats.per_position_acceptance([3, 1, 1], [4, 2]) == [0.5, 0.5]
  assert stats.per_position_acceptance([5, 0], [0]) == [None]


@pytest.mark.parametrize(
  ('trace', 'calls', 'tokens'),
  [
    ([1, 2, 0, 0, 1], [3], [5]),
    ([0] * 31 + [1, 0], [32], [33]),  # the last round began at 31
    ([0] * 32 + [1, 0], [32, 1], [32, 2]),
    ([0] * 1100, [32, 32, 64, 128, 256, 512, 76], [32, 32, 64, 128, 256, 512, 76]),
  ],
)
def test_by_position(trace, calls, tokens):
  fill = lambda counts: counts + [0] * (7 - len(counts))
  assert stats.by_position(trace) == (fill(calls), fill(tokens))


def test_accepted_from():
  five = [5, 6], [6, 5, 6, 6, 5], [0, 1, 1, 1, 1]
  assert stats.accepted_from(*five, n=2) == dict(prompt=1, output=2, draft=1)
  # With 3-grams only the last, 6 6 5, ended before; it began in the prompt.
  assert stats.accepted_from([5, 6], [6, 5, 6, 6, 5], [0, 0, 0, 0, 1]) == dict(
    prompt=0, output=1, draft=0
  )
  assert sum(stats.accepted_from([5], [5, 5], [0, 0]).values()) == 0
