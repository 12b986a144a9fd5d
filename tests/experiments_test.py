"""Comparisons: from a config to rows, and from rows to the numbers of a table."""

import collections
import csv
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
  repeats,
  rundir,
  summarize,
)
from experiments import tables as tables_lib
from specjax import stats
from specjax.drafters.oracle import Oracle
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.drafters.self_speculative import SelfSpeculative
from specjax.testing import tiny
from specjax.testing.table import table_model
from specjax.verifiers.gumbel import Gumbel

PLAIN = dict(drafter=dict(name='autoregressive'))
ORACLE = dict(drafter=dict(name='oracle', num_draft=3, rates=[1.0, 1.0, 1.0]))


TARGET = table_model(50)


class TestMethods:
  def test_settings_go_to_the_dataclass(self):
    parsed = methods.parse({'a': PLAIN, 'o': {**ORACLE, 'temperature': 1}}, 0.0, TARGET)
    assert parsed['o'].drafter == Oracle(3, vocab_size=50, rates=(1.0, 1.0, 1.0))
    assert parsed['o'].verifier == Gumbel()
    assert (parsed['a'].temperature, parsed['o'].temperature) == (0.0, 1.0)

  def test_a_dotted_path_is_the_users_own_module(self):
    own = dict(name='specjax.drafters.prompt_lookup', num_draft=2)
    assert methods.drafter(own, TARGET) == (PromptLookup(num_draft=2), None)

  def test_load_makes_a_drafter_and_its_params(self):
    model = tiny.tiny_model()
    settings = dict(name='self_speculative', num_layers=1)
    drafter, params = methods.drafter(settings, model)
    assert drafter == SelfSpeculative(model.target, num_layers=1) and params is None

  @pytest.mark.parametrize(
    ('drafter', 'message'),
    [
      (
        dict(name='medsua'),
        'specjax.drafters.medsua: .*: autoregressive, draft_model, oracle, prompt',
      ),
      (dict(name='no.where'), 'no.where: there is no such module'),
      (dict(name='specjax.trees'), 'specjax.trees: it has no Drafter'),
      (dict(num_draft=3), 'has no name'),
      (
        dict(name='prompt_lookup', depth=3),
        "does not take 'depth'.*max_ngram: int = 3",
      ),
      (dict(name='oracle', rates=[1.0]), "needs 'num_draft'.*num_draft: int"),
      (dict(name='prompt_lookup', num_draft=0), 'method m: num_draft must be a whole'),
      (dict(name='draft_model'), r"needs 'source'; it takes \(source: str"),
      (dict(name='self_speculative', num_layers=2), 'made of layers'),
    ],
  )
  def test_errors_say_what_is_right(self, drafter, message):
    with pytest.raises(ValueError, match=message):
      methods.parse({'m': dict(drafter=drafter)}, 0.0, TARGET)

  def test_only_takes_baselines_along(self):
    warm = dict(temperature=1.0)
    table = {'b': PLAIN, 'o': ORACLE, 'b1': {**PLAIN, **warm}, 'o1': {**ORACLE, **warm}}
    known = methods.parse(table, 0.0, TARGET)
    chosen = lambda only: [method.name for method in methods.choose(known, only)]
    assert chosen('') == ['b', 'o', 'b1', 'o1']
    assert chosen('o1') == ['b1', 'o1']
    assert chosen('o,o1') == ['b', 'o', 'b1', 'o1']
    with pytest.raises(ValueError, match="'x'; known: b, o, b1, o1"):
      chosen('o,x')
    del known['b1']
    with pytest.raises(ValueError, match='o1 runs at temperature 1.0, and no method'):
      chosen('')


def spec_bench_like() -> list[questions.Prompt]:
  """480 prompts in six tasks of 80; the first task is MT-bench's eight categories."""
  chat = [category for category in questions.MULTI_TURN for _ in range(10)]
  tasks = 'translation', 'summarization', 'qa', 'math_reasoning', 'rag'
  names = chat + [task for task in tasks for _ in range(80)]
  return [questions.Prompt(i, 81 + i, name, ('Hi.',)) for i, name in enumerate(names)]


class TestPrompts:
  def test_sb_120(self):
    chosen = questions.select(spec_bench_like(), 120, 'all')
    counts = collections.Counter((p.task, p.split) for p in chosen)
    assert len(counts) == 12 and set(counts.values()) == {10}
    assert {p.category for p in chosen if p.task == 'multi-turn'} == set(
      questions.MULTI_TURN
    )
    test = [p for p in chosen if p.split == 'test']
    assert test == questions.select(spec_bench_like(), 60, 'test')
    assert all(p.id % 2 == 0 for p in test)

  def test_small_tasks_give_what_they_have(self):
    few = [questions.Prompt(i, i, 'qa' if i else 'rag', ('Hi.',)) for i in range(9)]
    chosen = questions.select(few, 5, 'all')
    assert [p.task for p in chosen] == ['rag', 'qa', 'qa', 'qa', 'qa']
    assert questions.select(few, 0, 'all') == few

  @pytest.mark.parametrize(
    ('count', 'split'), [(481, 'all'), (241, 'dev'), (-1, 'all')]
  )
  def test_not_more_than_there_are(self, count, split):
    with pytest.raises(ValueError, match=f'num_prompts is {count}, but split {split}'):
      questions.select(spec_bench_like(), count, split)

  @pytest.mark.parametrize(
    ('line', 'message'),
    [
      ('{"question_id": 1', 'not JSON'),
      ('[1]', 'a JSON object is wanted'),
      (
        '{"question_id": "1", "category": "qa", "turns": ["Hi."]}',
        'question_id must be',
      ),
      ('{"question_id": 2, "category": "qa", "turns": [" "]}', 'turns must hold texts'),
      ('{"question_id": 1, "category": "qa", "turns": ["Hi."]}', '1 stands twice'),
    ],
  )
  def test_errors_name_the_line(self, tmp_path, line, message):
    path = tmp_path / 'p.jsonl'
    path.write_text('{"question_id": 1, "category": "qa", "turns": ["Hi."]}\n\n' + line)
    with pytest.raises(ValueError, match=f'p.jsonl, line 3: .*{message}'):
      questions.load(path)

  def test_the_shipped_file(self):
    shipped = questions.load(demo.get_config().prompts)
    tasks = collections.Counter(p.task for p in questions.select(shipped, 20, 'all'))
    assert len(tasks) == 10 and set(tasks.values()) == {2}


def repeated(method: str, prompt_id: int, seconds: list[float], **fields) -> list[dict]:
  row = dict(method=method, prompt_id=prompt_id, task='qa', batch=prompt_id)
  row |= dict(turn=1, new_tokens=20, target_calls=20, drafted=0, accepted=0)
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
    timed('baseline', draft_s=0, round_s=[0.1] * 4, round_drafted=[False] * 4),
    timed(
      'm', draft_s=0.05, round_s=[0.1, 0.3, 0.2], round_drafted=[False, True, True]
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
    # Requests at 25 and 25 ms a token; rounds of 0.1, 0.2 and 0.3 s.
    assert (overall['tpot_p50_ms'], overall['tpot_p99_ms']) == pytest.approx((25, 25))
    assert (overall['itl_p50_ms'], overall['itl_p99_ms']) == pytest.approx((200, 298))
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


@pytest.fixture
def config():
  c = demo.get_config()
  c.num_prompts, c.max_new_tokens, c.batch_size, c.repeats = 4, 16, 2, 2
  c.only = 'baseline_again,oracle,baseline_t1'
  c.methods.oracle.drafter.num_draft = 3
  c.methods.oracle.drafter.rates = (1.0,) * 3
  return c


TEXTS = 'abcabcabcabcabcabc', 'to be or not to be', 'one two', 'x'
PROMPTS = [questions.Prompt(i, i, 'qa', (text,)) for i, text in enumerate(TEXTS)]


def read(path) -> list[dict]:
  return [json.loads(line) for line in path.read_text().splitlines()]


class TestCompare:
  def test_a_run(self, config, tmp_path):
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
    summary = json.loads((tmp_path / 'summary.json').read_text())['rows']
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
