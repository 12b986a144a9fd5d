"""Comparisons as a whole: what is run, in which order, and what is written."""

import dataclasses
import json

import numpy as np
import pytest

from configs.experiments import demo, spec_bench
from experiments import (
  compare,
  methods,
  plan,
  questions,
  records,
  rundir,
)
from specjax import stats
from specjax.testing import tiny
from specjax.testing.table import table_model

pytestmark = pytest.mark.usefixtures('compile_quickly')

PLAIN = dict(drafter=dict(name='autoregressive'))
ORACLE = dict(drafter=dict(name='oracle', num_draft=3, rates=[1.0, 1.0, 1.0]))
TARGET = table_model(50)


@pytest.fixture
def config():
  c = demo.get_config()
  c.num_prompts, c.max_new_tokens, c.batch_size, c.repeats = 4, 16, 2, 2
  c.only = 'baseline_again,oracle,baseline_t1'
  c.floor_positions = 0
  c.methods.oracle.drafter.num_draft = 3
  c.methods.oracle.drafter.rates = (1.0,) * 3
  return c


TEXTS = 'abcabcabcabcabcabc', 'to be or not to be', 'one two', 'x'
PROMPTS = [questions.Prompt(i, i, 'qa', (text,)) for i, text in enumerate(TEXTS)]


def read(path) -> list[dict]:
  return [json.loads(line) for line in path.read_text().splitlines()]


class TestCompare:
  def test_a_run(self, config, tmp_path):
    config.floor_positions = 30
    compare.compare(tiny.tiny_model(), PROMPTS, config, tmp_path)
    rows = read(tmp_path / 'results.jsonl')
    names = {'baseline', 'baseline_again', 'oracle', 'baseline_t1'}
    assert len({(r['method'], r['prompt_id'], r['repeat']) for r in rows}) == 4 * 4 * 2
    assert {r['method'] for r in rows} == names
    assert all(r['identical_to_baseline'] for r in rows)
    for row, output in zip(rows, read(tmp_path / 'outputs.jsonl'), strict=True):
      assert row['method'] == output['method']
      assert row['tokens_sha256'] == stats.tokens_sha256(output['tokens'])
      assert row['new_tokens'] == len(output['tokens'])
    seeds = {(r['prompt_id'], r['repeat'], r['seed']) for r in rows}
    assert len(seeds) == len({seed for *_, seed in seeds}) == 8
    full = [r for r in rows if r['method'] == 'oracle' and r['new_tokens'] == 16]
    assert full and all(r['target_calls'] == 4 for r in full)
    for row in rows:
      assert sum(row['calls_by_position']) == row['target_calls']
      assert sum(row['tokens_by_position']) == row['new_tokens']
      assert sum(row['accepted_from'].values()) == row['accepted']
    assert {(r['prompt_id'], r['batch']) for r in rows} == {
      (i, i - i % 2) for i in range(4)
    }
    content = json.loads((tmp_path / 'summary.json').read_text())
    assert 0 < content['near_tie']['eps'] < 1e-4 and content['near_tie']['rows'] == 4
    assert 30 <= content['near_tie']['positions'] < 30 + 2 * 16
    summary = content['rows']
    assert {row['method'] for row in summary} == names
    assert not any('predicted_speedup' in row for row in summary)  # batches of 2
    assert len(read(tmp_path / 'phases.jsonl')) == 4
    assert (tmp_path / 'table.md').read_text().startswith('Target: tiny. 4 prompts.')

  def test_a_later_turn_continues_the_baselines_answer(self, config, tmp_path):
    config.batch_size, config.only, config.temperature = 1, 'baseline_t1,oracle', 0.0
    talk = [
      questions.Prompt(i, i, 'qa', (text, 'And?')) for i, text in enumerate(TEXTS)
    ]
    model = tiny.tiny_model()
    compare.compare(model, talk[:2], config, tmp_path)
    rows = read(tmp_path / 'results.jsonl')
    assert len(rows) == 3 * 2 * 2 * 2 and {row['turn'] for row in rows} == {1, 2}
    outputs = {
      records.key(row): row['tokens'] for row in read(tmp_path / 'outputs.jsonl')
    }
    for row in rows:
      base = 'baseline_t1' if row['temperature'] else 'baseline'
      answer = outputs[base, row['prompt_id'], row['repeat'], 1]
      turns = talk[row['prompt_id']].turns[: row['turn']]
      want = questions.token_ids(model, turns, [answer][: row['turn'] - 1])
      assert row['prompt_tokens'] == len(want) and row['identical_to_baseline']
    seeds = {(r['prompt_id'], r['repeat'], r['turn'], r['seed']) for r in rows}
    assert len(seeds) == len({seed for *_, seed in seeds}) == 8
    summary = json.loads((tmp_path / 'summary.json').read_text())['rows']
    assert {row['n_prompts'] for row in summary} == {2}  # both turns are one question

  def test_a_profile_and_the_time_to_expect(self, config, tmp_path, capsys):
    config.profile, config.only, config.phase_prompts = True, 'baseline', 0
    compare.compare(tiny.tiny_model(), PROMPTS, config, tmp_path)
    assert list((tmp_path / 'profile' / 'baseline').rglob('*.xplane.pb'))
    about = json.loads((tmp_path / 'methods.json').read_text())
    seconds = 4 * 16 * about['baseline']['round_s']  # 2 batches, 2 repeats, 16 tokens
    assert f'takes about {seconds:.0f} s if' in capsys.readouterr().out

  def test_training_data_that_holds_prompts_is_refused(self, config, tmp_path):
    (tmp_path / 'train.json').write_text(json.dumps([{'text': 'word ' * 20}]))
    prompt = dict(question_id=1, category='qa', turns=['word ' * 13])
    (tmp_path / 'prompts.jsonl').write_text(json.dumps(prompt))
    config.prompts, config.num_prompts = str(tmp_path / 'prompts.jsonl'), 0
    config.trained_on = (str(tmp_path / 'train.json'),)
    with pytest.raises(ValueError, match='1 of 1 prompts share 13 words'):
      compare.run(config, tmp_path)

  def test_a_batch_has_one_number_of_turns(self, config):
    mixed = [*PROMPTS[:3], dataclasses.replace(PROMPTS[3], turns=('x', 'y'))]
    with pytest.raises(ValueError, match='2: 1, 3: 2.*turns=1'):
      plan.make(tiny.tiny_model(), mixed, config)
    config.turns = 1
    assert len(plan.make(tiny.tiny_model(), mixed, config).groups()) == 4

  def test_too_long_prompts_are_named_before_anything_runs(self, config):
    config.max_new_tokens = 990
    model = tiny.tiny_model()
    lengths = [len(questions.token_ids(model, [text])) for text in TEXTS]
    assert [n > 1024 - 990 for n in lengths] == [True, True, False, False]
    with pytest.raises(ValueError, match=r'may have 34, but question_ids \[0, 1\]'):
      plan.make(model, PROMPTS, config)

  def test_batches_must_be_full(self, config):
    with pytest.raises(ValueError, match='3 prompts do not fill batches of 2'):
      plan.make(tiny.tiny_model(), PROMPTS[:3], config)

  def test_seeds_do_not_depend_on_the_selection(self, config):
    whole = plan.make(tiny.tiny_model(), PROMPTS, config)
    part = plan.make(tiny.tiny_model(), PROMPTS[2:], config)
    assert part.seeds == {i: whole.seeds[i] for i in (2, 3)}

  def test_order_is_random_but_for_oracles(self):
    todo = list(
      methods.parse({'a': PLAIN, 'o': ORACLE, 'b': PLAIN}, 0.0, TARGET).values()
    )
    rngs = map(np.random.default_rng, range(40))
    orders = {''.join(m.name for m in compare.in_order(todo, rng)) for rng in rngs}
    assert orders == {'aob', 'abo', 'bao'}


class TestRunDirectory:
  def test_a_second_run_is_refused(self, tmp_path):
    config = spec_bench.get_config()
    workdir = rundir.create(tmp_path / 'run', config, {'seed': 3})
    assert json.loads((workdir / 'config.json').read_text())['num_prompts'] == 120
    assert json.loads((workdir / 'overrides.json').read_text()) == {'seed': 3}
    assert json.loads((workdir / 'env.json').read_text())['versions']['jax']
    rundir.create(workdir, config, {'seed': 4})  # nothing was measured yet
    rundir.append_lines(workdir / 'results.jsonl', [{'method': 'm'}])
    with pytest.raises(ValueError, match='another seed in overrides.json: 4, now None'):
      rundir.create(workdir, config, {})
    rundir.finish(workdir)
    with pytest.raises(ValueError, match='finished run: choose another'):
      rundir.create(workdir, config, {})
