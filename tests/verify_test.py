"""A finished run is certified; a run that was tampered with is not."""

import json

import pytest

from configs import common
from experiments import compare, questions, records, rundir, verify
from specjax import stats
from specjax.testing import tiny

pytestmark = pytest.mark.usefixtures('compile_quickly')

TEXTS = 'abcabcabcabc', 'to be or not to be', 'one two three'
LOOKUP = dict(name='prompt_lookup', num_draft=3)


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  """A run of greedy, coupled and independently sampled methods."""
  folder = tmp_path_factory.mktemp('verify')
  prompts = [
    dict(question_id=i, category='qa', turns=[text, 'Why?'])
    for i, text in enumerate(TEXTS)
  ]
  (folder / 'prompts.jsonl').write_text('\n'.join(map(json.dumps, prompts)))
  config = common.compare()
  config.prompts = str(folder / 'prompts.jsonl')
  config.max_new_tokens, config.repeats, config.phase_prompts = 12, 2, 0
  config.floor_positions = 0
  config.top_k, config.top_p = 20, 0.95
  warm = dict(temperature=0.8)
  config.methods.lookup = dict(drafter=LOOKUP)
  config.methods.plain_warm = dict(drafter=dict(name='autoregressive')) | warm
  config.methods.coupled = dict(drafter=LOOKUP) | warm
  config.methods.drawn = dict(drafter=LOOKUP, verifier=dict(name='rejection')) | warm
  run = rundir.create(folder / 'run', config, {})
  compare.compare(tiny.tiny_model(), questions.load(config.prompts), config, run)
  rundir.finish(run)
  return run


@pytest.fixture(autouse=True)
def on_the_tiny_model(monkeypatch):
  monkeypatch.setattr(verify.specjax, 'load', lambda source: tiny.tiny_model())


def test_a_true_run_is_certified(finished):
  report = verify.verify(finished)
  assert report['certified'] and report == json.loads(
    (finished / 'verify.json').read_text()
  )
  rules = {name: method['rule'] for name, method in report['methods'].items()}
  assert rules == {
    'baseline': 'greedy',
    'lookup': 'greedy',
    'plain_warm': 'gumbel',
    'coupled': 'gumbel',
    'drawn': 'support',
  }
  # Greedy repeats give one text; sampled ones a text a seed.
  assert [m['rows'] for m in report['methods'].values()] == [
    6 if rule == 'greedy' else 12 for rule in rules.values()
  ]


def changed(run, tmp_path, method: str, honest: bool):
  """A copy of the run in which the method's first output has another first token."""
  for file in run.iterdir():
    if file.is_file():
      (tmp_path / file.name).write_bytes(file.read_bytes())
  outputs = [json.loads(x) for x in (run / 'outputs.jsonl').read_text().splitlines()]
  results = [json.loads(x) for x in (run / 'results.jsonl').read_text().splitlines()]
  row = next(row for row in outputs if row['method'] == method)
  row['tokens'][0] = (row['tokens'][0] + 1) % 256
  if honest:  # the hash of what is claimed
    key = records.key
    result = next(r for r in results if key(r) == key(row))
    result['tokens_sha256'] = stats.tokens_sha256(row['tokens'])
  for name, rows in (('outputs', outputs), ('results', results)):
    (tmp_path / f'{name}.jsonl').write_text('\n'.join(map(json.dumps, rows)))
  return tmp_path


@pytest.mark.parametrize('method', ['lookup', 'coupled', 'drawn'])
def test_one_wrong_token_is_found(finished, tmp_path, method):
  report = verify.verify(changed(finished, tmp_path, method, honest=True))
  assert not report['certified']
  failed = {name: m['failed'] for name, m in report['methods'].items()}
  assert failed.pop(method) == 1 and not any(failed.values())


def test_outputs_that_are_not_the_results_are_refused(finished, tmp_path):
  with pytest.raises(ValueError, match='does not hold the tokens.*lookup'):
    verify.verify(changed(finished, tmp_path, 'lookup', honest=False))


def edited(run, tmp_path, name: str, edit):
  """A copy of the run with each row of a file as `edit` returns it; None drops it."""
  for file in run.iterdir():
    if file.is_file():
      (tmp_path / file.name).write_bytes(file.read_bytes())
  rows = [json.loads(line) for line in (run / name).read_text().splitlines()]
  kept = [row for row in map(edit, rows) if row is not None]
  (tmp_path / name).write_text('\n'.join(map(json.dumps, kept)))
  return tmp_path


@pytest.mark.parametrize(
  'name, edit, message',
  [
    (
      'results.jsonl',
      lambda row: None if row['method'] == 'lookup' and row['turn'] == 2 else row,
      'holds 54 rows, 60',
    ),
    ('results.jsonl', lambda row: row | {'new_tokens': 120}, 'tokens, not 120'),
    ('results.jsonl', lambda row: row | {'seed': 7}, 'has seed 7'),
    (
      'results.jsonl',
      lambda row: row | {'decode_s': row['decode_s'] / 2},
      'speedup|per',
    ),
  ],
)
def test_claims_that_contradict_each_other_are_refused(
  finished, tmp_path, name, edit, message
):
  with pytest.raises(ValueError, match=message):
    verify.verify(edited(finished, tmp_path, name, edit))


def test_texts_that_were_cut_are_refused(finished, tmp_path):
  shorter = lambda row: row | {'tokens': row['tokens'][:1]}
  run = edited(finished, tmp_path, 'outputs.jsonl', shorter)
  rows = [json.loads(x) for x in (run / 'results.jsonl').read_text().splitlines()]
  tokens = {
    records.key(r): r['tokens']
    for r in map(json.loads, (run / 'outputs.jsonl').read_text().splitlines())
  }
  for row in rows:
    new = tokens[records.key(row)]
    row |= {'new_tokens': 1, 'tokens_sha256': stats.tokens_sha256(new)}
  (run / 'results.jsonl').write_text('\n'.join(map(json.dumps, rows)))
  with pytest.raises(ValueError, match='ends after 1 tokens: neither'):
    verify.verify(run)


def test_a_lossy_label_is_refused(finished, tmp_path):
  run = edited(finished, tmp_path, 'results.jsonl', lambda row: row)
  about = json.loads((run / 'methods.json').read_text())
  about['lookup']['lossless'] = False
  (run / 'methods.json').write_text(json.dumps(about))
  with pytest.raises(ValueError, match='lookup is called lossless=False'):
    verify.verify(run)


def test_an_unfinished_run_is_refused(tmp_path):
  with pytest.raises(ValueError, match='no finished comparison'):
    verify.verify(tmp_path)
