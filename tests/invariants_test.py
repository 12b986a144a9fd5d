"""Every drafter x verifier: the text is plain decoding's, and a row's is its own."""

import dataclasses

import numpy as np
import pytest

from specjax import sampling
from tests.decode_checks import greedy_trace
from tests.decode_matrix import (
  CASES,
  MODEL,
  NEW,
  OTHER,
  PROMPTS,
  VERIFIERS,
  Case,
  Row,
  V,
  decode,
  every_case,
  plain,
  wide_cases,
)

pytestmark = pytest.mark.usefixtures('compile_quickly')
ALL_CAPS = 1, 4, 8
drafting_cases = pytest.mark.parametrize(
  'case',
  [case for case in CASES if case.drafter in ('draft_model', 'self_speculative')],
  ids=str,
)


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
    rows = replaced(rows, cap=narrow.num_draft)
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
      cap = min(row.cap, case.num_draft)
      if row.temperature == 0:
        assert done.trace == greedy_trace(drafts, done.tokens, cap), row


@pytest.mark.parametrize('wide', [True, False], ids=['wide', 'narrow'])
@pytest.mark.parametrize('rule', VERIFIERS)
def test_a_draft_model_with_the_targets_weights_is_always_right(rule, wide):
  case = Case('draft_model', rule, wide)
  for rows in case.mixtures()[::2]:
    for row, done in zip(rows, decode(case, rows, draft=MODEL.params)):
      depth = min(row.cap, case.num_draft)
      assert done.accepted == done.drafted
      assert done.target_calls == -(-NEW // (depth + 1))
