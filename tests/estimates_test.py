"""Intervals and comparisons in a table: on questions made by hand."""

import numpy as np
import pytest

from experiments import estimates, tables
from experiments.repeats import Question, speedup
from specjax import intervals

TASKS = ['qa'] * 6 + ['rag'] * 6
NOISE = np.random.default_rng(2).normal(0, 0.02, (7, 12))


def question(index: int, seconds: float, batch: int | None = None, **fields):
  own = dict(
    prompt_id=index,
    task=TASKS[index],
    batch=index if batch is None else batch,
    new_tokens=20.0 + index,
    decode_s=seconds,
    total_s=seconds + 1,
    counts={'target_calls': np.asarray(10.0 + index % 3)},
    identical=[],
    degenerate=False,
    each_tokens=[20 + index],
    each_decode_s=[seconds],
  )
  return Question(**(own | fields))


def method(against: str = 'base', drafter: str = 'x', **fields) -> dict:
  own = dict(against=against, drafter=dict(name=drafter), num_draft=3)
  return own | dict(lossless=True, temperature=0.0) | fields


ABOUT = {
  'base': method(num_draft=0),
  'baseline_again': method(num_draft=0),
  'fast': method(),
  'as_fast': method(),
  'slow': method(),
  'oracle': method(drafter='oracle'),
  'lossy': method(lossless=False),
}
SPEED = dict(base=1, baseline_again=1, fast=2, as_fast=2, slow=1.5, oracle=4, lossy=3)
QUESTIONS = {
  name: [question(i, (1 + i) * np.exp(noise[i]) / SPEED[name]) for i in range(12)]
  for name, noise in zip(ABOUT, NOISE)
}


class TestEstimates:
  def test_against_the_baseline(self):
    found = estimates.estimates(ABOUT, QUESTIONS)
    for name in set(ABOUT) - {'base'}:
      low, high = found[name]['speedup_ci95']
      ratio = speedup(list(zip(QUESTIONS[name], QUESTIONS['base'])))
      assert ratio == pytest.approx((low * high) ** 0.5) and 1.01 < high / low < 1.1
    assert found['base']['speedup_ci95'] is found['base']['p_holm'] is None
    assert found['baseline_again']['p_holm'] > 0.05 > found['slow']['p_holm']

  def test_the_fastest_and_those_not_worse(self):
    found = estimates.estimates(ABOUT, QUESTIONS)
    best = {name: fields['best'] for name, fields in found.items()}
    assert (best['fast'], best['as_fast'], best['slow']) == (True, True, False)
    # No contenders: baselines, the ceiling, and what changes the output.
    rest = {best[name] for name in ('base', 'baseline_again', 'oracle', 'lossy')}
    assert rest == {None}

  def test_temperatures_are_apart(self):
    warm = {'base_t1': method('base_t1', num_draft=0, temperature=1.0)}
    warm |= {'slow_t1': method('base_t1', temperature=1.0)}
    more = {'base_t1': QUESTIONS['base'], 'slow_t1': QUESTIONS['slow']}
    found = estimates.estimates(ABOUT | warm, QUESTIONS | more)
    assert found['slow_t1']['best'] is True and found['slow']['best'] is False

  def test_what_is_slower_than_plain_decoding_is_not_best(self):
    two = {name: ABOUT[name] for name in ('base', 'slow')}
    slower = {'base': QUESTIONS['fast'], 'slow': QUESTIONS['slow']}
    assert estimates.estimates(two, slower)['slow']['best'] is False

  def test_tau(self):
    fields = estimates.estimates(ABOUT, QUESTIONS)['fast']
    low, high = fields['mean_accepted_length_ci95']
    assert low < sum(20 + i for i in range(12)) / sum([10, 11, 12] * 4) < high

  def test_fewer_than_five_questions_have_no_interval(self):
    few = {name: mine[:4] for name, mine in QUESTIONS.items()}
    fields = estimates.estimates(ABOUT, few)['fast']
    names = 'speedup_ci95', 'mean_accepted_length_ci95', 'p_holm', 'best'
    assert [fields[name] for name in names] == [None] * 4

  def test_a_batch_is_one_unit(self):
    about = {'base': method(num_draft=0), 'fast': method()}
    single = {name: QUESTIONS[name] for name in about}
    twice = {
      name: [question(q.prompt_id, q.decode_s, q.batch) for q in mine for _ in range(2)]
      for name, mine in single.items()
    }
    ours, theirs = (estimates.estimates(about, q)['fast'] for q in (single, twice))
    assert ours['speedup_ci95'] == pytest.approx(theirs['speedup_ci95'])
    # Six batches of two tasks each, where one batch alone has both.
    pairs = {
      name: [question(q.prompt_id, q.decode_s, (q.prompt_id + 1) // 2) for q in mine]
      for name, mine in single.items()
    }
    assert estimates._strata(pairs['fast']) == ['qa'] * 3 + ['qa+rag'] + ['rag'] * 3

  def test_repeats(self):
    about = {'base': method(num_draft=0), 'fast': method()}
    each = {'base': ([20, 20], [4.0, 4.0]), 'fast': ([20, 20], [2.0, 1.0])}
    questions = {
      name: [question(i, 1.0, each_tokens=n, each_decode_s=s) for i in range(3)]
      for name, (n, s) in each.items()
    }
    fields = estimates.estimates(about, questions)['fast']
    # log 2 and log 4: mean log 2.83, standard error log 2 / 2.
    assert fields['speedup_log_se_repeats'] == pytest.approx(np.log(2) / 2)
    by_hand = intervals.over_repeats(np.log([2, 4]))
    assert fields['speedup_ci95_repeats'] == pytest.approx(by_hand.interval)
    assert estimates.estimates(ABOUT, QUESTIONS)['fast']['speedup_ci95_repeats'] is None


def test_cells_are_marked():
  row = dict(method='m', speedup=1.3, speedup_ci95=(1.22, 1.39), best=True, noise=False)
  cell = tables._cell(row, 'speedup', '.2f')
  assert tables._marked(cell) == '**1.30 [1.22, 1.39]**'
  assert tables._styled(cell).style == 'bold'
  small = row | dict(speedup=1.01, best=False, noise=True)
  cell = tables._cell(small, 'speedup', '.2f', interval=False)
  assert tables._marked(cell) == '1.01 ~' and tables._styled(cell).style == 'dim'
