"""Every drafter x verifier: text is plain decoding's, cut where it ends, a row's own.

One file, because its programs are shared: they are most of its time.
"""

import dataclasses

import jax
import numpy as np
import pytest

from specjax import decoding, sampling
from tests.decode_checks import greedy_trace
from tests.decode_matrix import (
  MODEL,
  NEW,
  OTHER,
  PROMPTS,
  Row,
  V,
  begin,
  cases,
  decode,
  every_case,
  finish,
  plain,
  wide_cases,
)

pytestmark = pytest.mark.usefixtures('compile_quickly')
ALL_CAPS = 1, 4, 8
drafting_cases = cases('draft_model', 'self_speculative')


def texts(completions) -> list[list[int]]:
  return [done.tokens for done in completions]


def replaced(rows, **changes) -> tuple[Row, ...]:
  return tuple(dataclasses.replace(row, **changes) for row in rows)


@every_case
def test_greedy_rows_and_rows_with_shared_noise_are_plain_decoding(case):
  accepted = drafted = checked = 0
  for rows in case.mixtures():
    for row, got, base in zip(rows, decode(case, rows), plain(rows)):
      accepted, drafted = accepted + got.accepted, drafted + got.drafted
      if row.temperature == 0 or case.verifier.shared_noise:
        assert got.tokens == base.tokens[:NEW], row
        checked += 1
  assert checked >= len(PROMPTS) * len(ALL_CAPS)
  assert 0.02 < accepted / drafted < 0.98


@wide_cases
def test_a_row_depends_on_itself_alone_not_on_batch_buffer_or_wider_drafts(case):
  narrow = dataclasses.replace(case, wide=False)
  for rows in case.mixtures()[::2]:
    rows = replaced(rows, cap=narrow.num_nodes)
    for wide, alone in zip(decode(case, rows), decode(narrow, rows)):
      assert wide.tokens == alone.tokens
      assert wide.trace == alone.trace
      assert wide.drafted == alone.drafted


@wide_cases
def test_a_row_depends_on_neither_its_slot_nor_its_batch_mates(case):
  for rows in case.mixtures()[::4]:
    base = decode(case, rows)
    for slot, row in enumerate(rows):
      mates = Row((9,) * 7, cap=2, stop_ids=(4,)), Row((8, 3), max_new_tokens=3)
      for place in range(3):
        batch = (*mates[:place], row, *mates[place:])
        assert decode(case, batch)[place] == base[slot], (row, place)


@every_case
def test_a_banned_token_never_comes(case):
  greedy, sampled = {}, dict(temperature=1.5)
  for warping in [greedy] if case.verifier.greedy_only else [greedy, sampled]:
    free = tuple(Row(prompt, seed=7, **warping) for prompt in PROMPTS)
    common = [np.argmax(np.bincount(done.tokens)) for done in decode(case, free)]
    banned = [((int(token), -np.inf),) for token in common]
    rows = [replaced([row], logit_bias=bias)[0] for row, bias in zip(free, banned)]
    for done, token in zip(decode(case, rows), common):
      assert token not in done.tokens and len(done.tokens) == NEW


@every_case
def test_a_bias_is_an_edit_of_the_logits_of_target_and_draft_model(case):
  bias = (0, -1.25), (3, 2.0), (7, -np.inf)
  dense = sampling.bias_rows(dict(bias), 1, V)[0]
  edited = lambda tables: (tables[0] + dense, *tables[1:])
  for rows in case.mixtures()[::2]:
    biased, free = replaced(rows, logit_bias=bias), replaced(rows, logit_bias=())
    tables = dict(target=edited(MODEL.params), draft=edited(OTHER))
    want = decode(case, free, known=biased, **tables)
    got = decode(case, biased)
    assert texts(got) == texts(want)
    assert [done.trace for done in got] == [done.trace for done in want]


@drafting_cases
def test_greedy_drafts_are_what_the_drafter_finds_best_after_the_same_text(case):
  tables = MODEL.params[:1] if case.drafter == 'self_speculative' else OTHER
  for rows in case.mixtures():
    bias = np.asarray(sampling.bias_rows([dict(r.logit_bias) for r in rows], 3, V))
    for row, added, done in zip(rows, bias, decode(case, rows)):
      best, text = np.argmax(sum(tables) + added, axis=-1), [0, *row.prompt]
      text += done.tokens
      drafts = [best[a, b] for a, b in zip(text[-NEW - 2 :], text[-NEW - 1 : -1])]
      cap = min(row.cap, case.num_nodes)
      if row.temperature == 0:
        assert done.trace == greedy_trace(drafts, done.tokens, cap), row


@cases('draft_model')
def test_a_draft_model_with_the_targets_weights_is_always_right(case):
  for rows in case.mixtures()[::2]:
    for row, done in zip(rows, decode(case, rows, draft=MODEL.params)):
      depth = min(row.cap, case.num_nodes)
      assert done.accepted == done.drafted
      assert done.target_calls == -(-NEW // (depth + 1))


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


@every_case
def test_no_drafter_or_verifier_recompiles_for_other_values(case):
  rows = case.mixtures()[-1]
  decode(case, rows)
  others = dict(cap=3, stop_ids=(1, 2, 3, 4), stop_strings=('ab', 'xyz'), seed=9)
  others |= dict(max_new_tokens=7, top_k=3, top_p=0.5, logit_bias=((1, 2.0),))
  rows = tuple(
    dataclasses.replace(row, prompt=prompt, **others)
    for row, prompt in zip(rows, ((5,) * 131, (6, 7), (3,)))
  )
  rows = rows if case.wide else rows[:1]
  plain(rows)  # what an oracle is told comes from another program
  compiled = lambda: (decoding.prefill._cache_size(), decoding.decode._cache_size())
  before = compiled()
  run = begin(case, rows)
  leaves = jax.tree.leaves(run.state)
  finish(run, rows)
  assert compiled() == before
  assert all(leaf.is_deleted() for leaf in leaves)  # the state was donated
