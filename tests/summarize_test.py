"""From rows of results to the numbers of a table."""

import csv

import numpy as np
import pytest

from experiments import repeats, summarize
from experiments import tables as tables_lib


def repeated(method: str, prompt_id: int, seconds: list[float], **fields) -> list[dict]:
  row = dict(method=method, prompt_id=prompt_id, task='qa', batch=prompt_id)
  row |= dict(turn=1, batch_size=1, tokens_sha256='x')
  row |= dict(new_tokens=20, target_calls=20, drafted=0, accepted=0)
  row |= dict(accepted_histogram=[20], offered=[], prefill_s=1.0, repeat8=0.0)
  row |= dict(accepted_from=dict(prompt=0, output=0, draft=0))
  row |= dict(calls_by_position=[20] + [0] * 6, tokens_by_position=[20] + [0] * 6)
  row |= dict(loop_onset=None, identical_to_baseline=True) | fields
  return [row | dict(repeat=i, decode_s=time) for i, time in enumerate(seconds)]


def hand_made() -> tuple[dict, list[dict], list[dict]]:
  """Two questions: 20 tokens each, and on the second the baseline repeats itself."""
  drafted = dict(drafted=30, accepted=10, offered=[6], accepted_histogram=[2, 4])
  drafted |= dict(accepted_from=dict(prompt=6, output=3, draft=1))
  drafted |= dict(calls_by_position=[7, 3] + [0] * 5)
  drafted |= dict(tokens_by_position=[14, 6] + [0] * 5)
  few = dict(task='rag', target_calls=5, identical_to_baseline=False)
  rows = [
    *repeated('baseline', 1, [1.0] * 3),
    *repeated('baseline', 2, [3.0] * 3, task='rag', repeat8=0.5),
    *repeated('m', 1, [0.5, 9.0, 0.4], target_calls=10, **drafted),
    *repeated('m', 2, [0.5, 0.5, 0.6], **drafted | few),
  ]
  timed = lambda method, **times: dict(method=method, prompt_ids=[1], **times)
  phases = [
    timed('baseline', draft_s=0, round_s=[0.1] * 10, round_drafted=[False] * 10),
    timed(
      'm',
      draft_s=0.05,
      round_s=[0.1, 0.3, 0.2] * 10,
      round_drafted=[False, True, True] * 10,
    ),
  ]
  shared = dict(against='baseline', batch_size=1, lossless=True, temperature=0.0)
  shared |= dict(drafter=dict(name='x'), num_draft=1)
  about = dict(baseline=shared | dict(compile_s=1.5), m=shared | dict(compile_s=2.5))
  return about, rows, phases


class TestSummary:
  def test_numbers_by_hand(self):
    summary = summarize.summarize(*hand_made())
    rows = {(row['method'], row['category']): row for row in summary}
    overall = rows['m', 'all']
    # Medians over repeats: 0.5 s and 0.5 s, against 1 s and 3 s.
    assert overall['speedup'] == pytest.approx(4.0)
    assert overall['speedup_geomean'] == pytest.approx((2 * 6) ** 0.5)
    assert overall['speedup_nondegenerate'] == pytest.approx(2.0)
    assert overall['end_to_end_speedup'] == pytest.approx(6 / 3)
    assert overall['tokens_per_second'] == pytest.approx(40.0)
    assert overall['tpot_ms'] == pytest.approx(25.0)
    assert overall['mean_accepted_length'] == pytest.approx(40 / 15)
    assert overall['mean_accepted_length_macro'] == pytest.approx(3.0)
    assert overall['acceptance_rate'] == pytest.approx(1 / 3)
    assert overall['per_position_acceptance'] == pytest.approx([4 / 6])
    assert overall['identical_fraction'] == 0.5
    assert overall['accepted_from'] == pytest.approx(
      dict(prompt=0.6, output=0.3, draft=0.1)
    )
    assert overall['tau_by_position'] == {'0-31': 2.0, '32-63': 2.0}
    # Requests at 25 and 25 ms a token; ten rounds each of 0.1, 0.2 and 0.3 s.
    assert (overall['tpot_p50_ms'], overall['tpot_p99_ms']) == pytest.approx((25, 25))
    assert (overall['itl_p50_ms'], overall['itl_p99_ms']) == pytest.approx((200, 300))
    # 40 tokens in 1.0, 9.5 and 1.0 s, against 40 in 4 s.
    logs = np.log([4, 4 / 9.5, 4])
    assert overall['speedup_log_se_repeats'] == pytest.approx(logs.std(ddof=1) / 3**0.5)
    assert overall['speedup_ci95'] is overall['best'] is None  # two questions
    # 12 of 15 rounds drafted, at 0.25 s; the others cost 0.1 s: 0.22 s on average.
    assert (overall['draft_ms'], overall['verify_ms']) == pytest.approx((50, 170))
    assert overall['predicted_speedup'] == pytest.approx(40 / 15 * 0.1 / 0.22)
    assert overall['measured_over_predicted'] == pytest.approx(4 * 15 / 40 * 2.2)
    assert overall['compile_s'] == 2.5
    assert rows['m', 'rag']['speedup'] == pytest.approx(6.0)
    assert rows['m', 'rag']['speedup_nondegenerate'] is None
    assert rows['baseline', 'all']['speedup'] == 1.0

  def test_the_turns_of_a_question_add_up(self):
    rows = [
      *repeated('m', 1, [1.0, 3.0, 2.0]),
      *repeated('m', 1, [0.5, 0.1, 0.2], turn=2, new_tokens=10),
    ]
    (question,) = repeats.per_question(rows, 'm')
    assert (question.new_tokens, question.decode_s) == (30, pytest.approx(2.2))
    assert list(question.each_decode_s) == pytest.approx([1.5, 3.1, 2.2])
    assert question.counts['target_calls'] == 40

  def test_a_batchs_time_is_not_that_of_a_rows_own_tokens(self):
    rows = repeated('m', 1, [4.0, 4.0, 4.0], batch_size=2)
    for row, tokens in zip(rows, (2, 2, 128)):  # another text in each repeat
      row |= dict(new_tokens=tokens, tokens_sha256=str(row['repeat']))
    (question,) = repeats.per_question(rows, 'm')
    assert question.decode_s == 4.0 and question.total_s == 5.0

  def test_prefill_is_not_scaled_by_tokens(self):
    rows = repeated('m', 1, [0.08, 0.08, 1.28])
    for row, tokens in zip(rows, (8, 8, 128)):
      row['new_tokens'] = tokens
    (question,) = repeats.per_question(rows, 'm')
    assert question.total_s == pytest.approx(1 + 0.48)

  def test_tables(self, tmp_path):
    about, rows, phases = hand_made()
    about['baseline_again'] = about['baseline']
    rows += [row | dict(method='baseline_again', decode_s=2.5) for row in rows[:6]]
    summary = summarize.summarize(about, rows, phases)
    tables_lib.write(tmp_path, 'toy', about, summary)
    text = (tmp_path / 'table.md').read_text()
    assert text.index('itself is 0.800x, so differences up to 20.0% are noise:') < (
      text.index('| m | 0 | 4.00 | 2.00 | 2.67 | 33% | 40.0 | 50% |')
    )
    assert 'baseline repeats itself on 1 of 2' in text
    assert '| rag | 6.00 |' in text
    assert (
      '| baseline_again | 0 | 0.80 ~ |' in text and '| baseline | 0 | 1.00 |' in text
    )
    assert '| m | 2.00 | 2.00 |' in text  # tau by output position
    with (tmp_path / 'table.csv').open() as file:
      assert [row['method'] for row in csv.DictReader(file)][:2] == ['baseline', 'm']
