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
