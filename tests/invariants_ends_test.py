"""Every drafter x verifier: stops, limits and the buffer's end cut plain text."""

import dataclasses

import pytest

from tests.decode_matrix import (
  PROMPTS,
  V,
  decode,
  every_case,
  plain,
)

pytestmark = pytest.mark.usefixtures('compile_quickly')


def spelled(tokens) -> str:
  """The toy tokenizer's text: token 7 is byte 7."""
  return bytes(tokens).decode()


def end_of(tokens, stop_ids, stop_strings) -> int:
  """How many tokens come before the text ends, its last one included."""
  for count in range(1, len(tokens) + 1):
    text = spelled(tokens[:count])
    if tokens[count - 1] in stop_ids or any(s in text for s in stop_strings):
      return count
  return len(tokens)


def stops(tokens, slot: int, turn: int) -> dict:
  """Up to four ids for one row, strings of up to three tokens for another, or both."""
  ids = [(turn + slot + 3 * i) % V for i in range(1 + turn % 4)]
  strings = [spelled(tokens[i : i + 1 + turn % 3]) for i in (5 + turn, 2 + 2 * turn)]
  kind = (slot + turn) % 3
  return dict(
    stop_ids=() if kind == 1 else tuple(ids),
    stop_strings=('zz',) if kind == 2 else tuple(strings),
  )


@every_case
def test_a_stop_cuts_the_text_behind_it_wherever_it_falls(case):
  depths = set()
  for turn, rows in enumerate(case.mixtures()):
    whole = decode(case, rows)
    rows = [
      dataclasses.replace(row, **stops(done.tokens, slot, turn))
      for slot, (row, done) in enumerate(zip(rows, whole))
    ]
    for row, done, full in zip(rows, decode(case, rows, known=tuple(rows)), whole):
      end = end_of(full.tokens, row.stop_ids, row.stop_strings)
      assert done.tokens == full.tokens[:end], row
      assert done.trace == full.trace[:end], row
      assert done.log_p == full.log_p[:end], row
      depths.add(done.trace[-1])
  assert len(depths) > 1  # also among accepted tokens, see check_counts


@every_case
def test_limits_and_the_buffers_end_are_met_exactly(case):
  fills = case.max_len - len(PROMPTS[2])
  for turn, rows in enumerate(case.mixtures()[::2]):
    limits = (turn % 11, 1 - turn % 2, fills if turn % 3 else turn)
    limits = [limits[(slot + turn // 3) % 3] for slot in range(3)]
    rows = tuple(
      dataclasses.replace(row, max_new_tokens=limit) for row, limit in zip(rows, limits)
    )
    for row, done, base in zip(rows, decode(case, rows), plain(rows)):
      assert len(done.tokens) == row.max_new_tokens
      assert not any(done.trace[-1:])  # the last one is the target's, nothing was cut
      if row.temperature == 0 or case.verifier.shared_noise:
        assert done.tokens == base.tokens[: row.max_new_tokens]
