"""Bad input in one place: a clear error, or the right result; never a hang or a clamp.

A message must name what was wrong and the numbers on both sides; none of these cases
may reach jax.
"""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
from absl import flags
from safetensors import numpy as safetensors_numpy

import specjax
from configs import common
from experiments import compare, questions, rundir
from experiments import main as experiments_main
from specjax import text
from specjax.drafters import draft_model, draft_tree, self_speculative
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.growing import StaticTree
from specjax.drafters.oracle import Oracle
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.drafters.self_speculative import SelfSpeculative
from specjax.testing import tiny, toy_text
from specjax.testing.table import table_model
from specjax.verifiers.greedy import Greedy

TABLE, TINY = table_model(11), tiny.tiny_model()  # contexts of 2**20 and 1024 tokens
NAN, INF = float('nan'), float('inf')
LOOKUP = PromptLookup(4, max_ngram=2, min_ngram=1)


def decode(model=TABLE, prompts=((1, 2, 1, 2, 1), (3,)), **settings):
  return specjax.decode(model, prompts, **{'max_new_tokens': 8, **settings})


REQUESTS = {
  'no prompt': (dict(prompts=[]), 'no prompts'),
  'an empty prompt': (dict(prompts=[[]]), 'prompt 0 is empty'),
  'one empty prompt of two': (dict(prompts=[[1], []]), 'prompt 1 is empty'),
  'an empty text': (dict(prompts=''), 'prompt 0 is empty'),
  'a token above the vocabulary': (dict(prompts=[[1, 11]]), 'from 1 to 11.*0 to 10'),
  'a negative token': (dict(prompts=[[1, -1]]), 'from -1 to 1.*0 to 10'),
  'a fractional token': (dict(prompts=[[1, 1.5]]), 'prompt 0 must hold token ids.*1.5'),
  'a prompt beyond the context': (
    dict(model=TINY, prompts=[[1] * 2000]),
    'prompt 0 has 2000 tokens and 8 new.*room for 1024',
  ),
  'output beyond the context': (
    dict(model=TINY, prompts=[[1] * 1000], max_new_tokens=25),
    '1000 tokens and 25 new.*1025 in all.*1024',
  ),
  'output beyond the buffer': (dict(max_len=12), '5 tokens and 8 new.*room for 12'),
  'max_len 0': (dict(max_len=0), 'max_len must be a whole number of at least 1, got 0'),
  'max_len -5': (dict(max_len=-5), 'max_len.*got -5'),
  'max_new_tokens -1': (dict(max_new_tokens=-1), 'max_new_tokens.*-1'),
  'max_new_tokens 1.5': (dict(max_new_tokens=1.5), 'max_new_tokens.*whole.*1.5'),
  'max_new_tokens of three rows': (dict(max_new_tokens=[1, 2, 3]), '2 rows, got'),
  'temperature -1': (dict(temperature=-1), 'temperature must be finite and >= 0.*-1'),
  'temperature nan': (dict(temperature=NAN), 'temperature must be finite.*nan'),
  'temperature inf': (dict(temperature=INF), 'temperature must be finite.*inf'),
  'temperature of three rows': (dict(temperature=[1, 1, 0]), r'2 rows, shape \(3,\)'),
  'top_p 0': (dict(top_p=0), r'top_p must be in \(0, 1\].*got 0'),
  'top_p 1.1': (dict(top_p=1.1), 'top_p.*1.1'),
  'top_k -1': (dict(top_k=-1), 'top_k must be a whole number >= 0.*-1'),
  'top_k 1.5': (dict(top_k=1.5), 'top_k must be a whole number.*1.5'),
  'min_p 1': (dict(min_p=1), r'min_p must be in \[0, 1\).*got 1'),
  'a setting that is text': (dict(top_p='0.9'), "top_p must be a number.*'0.9'"),
  'a setting that does not exist': (dict(temprature=1), 'temprature'),
  'seed -1': (dict(seed=-1), 'seed must be from 0 to 4294967295, got -1'),
  'seed 2**32': (dict(seed=2**32), 'seed.*4294967296'),
  'seed 0.5': (dict(seed=0.5), 'seed must be a whole number.*0.5'),
  'a greedy verifier at temperature 1': (
    dict(verifier=Greedy(), temperature=[0, 1]),
    r'greedy verifier is exact at temperature 0 only.*\[0.0, 1.0\]; use',
  ),
  'a stop id above the vocabulary': (dict(stop_ids=[11]), 'has 11.*0 to 10'),
  'stop ids of three rows': (dict(stop_ids=[[1], [2], []]), '3 rows.*2 prompts'),
  'an empty stop string': (dict(stop_strings=['']), 'row 0 has an empty stop string'),
  'a stop string that is a number': (dict(stop_strings=[[1], [2]]), '1'),
  'stop strings of three rows': (
    dict(stop_strings=[['a'], ['b'], []]),
    '3 lists for 2 prompts',
  ),
  'a bias outside the vocabulary': (dict(logit_bias={11: 1.0}), 'token 11.*0 to 10'),
  'a bias of nan': (
    dict(logit_bias={1: NAN}),
    'token 1 must be .*got nan',
  ),
  'a bias that is inf in float32': (
    dict(logit_bias={1: 1e39}),
    'token 1 must be .*got 1e',
  ),
  'a bias that bans all': (
    dict(logit_bias=dict.fromkeys(range(11), -INF)),
    'bans every token of prompt 0',
  ),
  'a bias of three rows': (dict(logit_bias=[{}] * 3), '3 rows.*2 prompts'),
  'an oracle without its text': (
    dict(drafter=Oracle(2, 11, rates=(1.0, 1.0))),
    'oracle needs the text of 2 rows.*got none',
  ),
  'a draft model without weights': (
    dict(drafter=DraftModel(TABLE.target, 11)),
    'needs its weights.*drafter_params',
  ),
  'a buffer beyond the draft model': (
    dict(
      drafter=DraftModel(dataclasses.replace(TABLE.target, max_positions=100), 11),
      drafter_params=TABLE.params,
    ),
    'buffer holds 256 tokens.*made for 100',
  ),
}


@pytest.mark.parametrize('case', REQUESTS)
def test_a_request_is_refused(case):
  settings, message = REQUESTS[case]
  error = TypeError if case == 'a setting that does not exist' else ValueError
  with pytest.raises(error, match=message):
    decode(**settings)


def other_tokenizer() -> text.Tokenizer:
  tokenizer = toy_text.toy_tokenizer()
  tokenizer.backend.add_tokens(['<|more|>'])
  return tokenizer


PARTS = {
  'num_draft 0': (lambda: PromptLookup(0), 'num_draft.*at least 1, got 0'),
  'num_draft 2.5': (lambda: PromptLookup(2.5), 'num_draft must be a whole.*2.5'),
  'num_draft as text': (lambda: PromptLookup('5'), "num_draft must be a whole.*'5'"),
  'min_ngram over max_ngram': (lambda: PromptLookup(5, 2, 3), 'min_ngram.*3 and 2'),
  'an oracle without a dial': (lambda: Oracle(2, 11), 'rates or script'),
  'too few rates': (lambda: Oracle(2, 11, rates=(1.0,)), 'rates must be 2 numbers'),
  'a rate over 1': (lambda: Oracle(1, 11, rates=(1.5,)), r'rates.*\(1.5,\)'),
  'no layers': (lambda: SelfSpeculative(TINY.target, 0), '2 layers.*first 0'),
  'all layers': (lambda: SelfSpeculative(TINY.target, 2), '2 layers.*first 2'),
  'layers of a table': (
    lambda: self_speculative.load(TABLE, num_layers=1),
    'made of layers.*TableTarget',
  ),
  'another tokenizer': (
    lambda: draft_model.pair(
      TINY, dataclasses.replace(TINY, tokenizer=other_tokenizer(), label='other')
    ),
    r'draft model other \(260 tokens\).*target tiny \(259 tokens\)',
  ),
  'another tokenizer, of a tree': (
    lambda: draft_tree.pair(
      TINY,
      dataclasses.replace(TINY, tokenizer=other_tokenizer(), label='other'),
      StaticTree(2),
    ),
    r'draft model other .*target tiny',
  ),
  'a draft model that is nowhere': (
    lambda: draft_model.load(TINY, source='no/where/at/all'),
    'no/where/at/all is not a directory',
  ),
}


@pytest.mark.parametrize('case', PARTS)
def test_a_drafter_is_refused(case):
  make, message = PARTS[case]
  with pytest.raises((ValueError, FileNotFoundError), match=message):
    make()


class TestTheRightResult:
  """What looks odd and is not wrong."""

  base = staticmethod(lambda **more: [done.tokens for done in decode(**more)])

  @pytest.mark.parametrize('drafter', [None, LOOKUP])
  def test_no_new_token(self, drafter):
    assert self.base(drafter=drafter, max_new_tokens=0) == [[], []]

  @pytest.mark.parametrize('number', [1, 2])  # K = 4 is larger than what is left
  def test_fewer_new_tokens_than_drafted(self, number):
    want = [tokens[:number] for tokens in self.base()]
    assert self.base(drafter=LOOKUP, max_new_tokens=number) == want

  def test_a_buffer_that_ends_inside_a_window(self):
    assert self.base(drafter=LOOKUP, max_len=13) == self.base()

  def test_a_stop_token_first(self):
    first, second = (tokens[0] for tokens in self.base())
    stops = [[first], [second]]
    assert self.base(drafter=LOOKUP, stop_ids=stops) == [[first], [second]]

  def test_a_stop_token_inside_a_window(self):
    base = decode()
    known = np.zeros((2, 256), np.int32)
    for row, prompt, done in zip(known, [(1, 2, 1, 2, 1), (3,)], base):
      row[: len(prompt) + 8] = [*prompt, *done.tokens]
    stop = base[0].tokens[2]
    oracle = Oracle(4, 11, rates=(1.0,) * 4)
    got = decode(drafter=oracle, drafter_params=known, stop_ids=[[stop], []])
    cut = base[0].tokens.index(stop) + 1
    assert [done.tokens for done in got] == [base[0].tokens[:cut], base[1].tokens]

  def test_top_k_above_the_vocabulary_is_no_filter(self):
    warm = dict(temperature=1.0, seed=[1, 2])
    assert self.base(top_k=12, **warm) == self.base(top_k=0, **warm)

  def test_a_very_low_and_a_very_high_temperature(self):
    cold, hot = self.base(temperature=[1e-30, 1e30], seed=3)
    assert cold == self.base()[0] and len(hot) == 8

  def test_padding_in_the_draft_models_vocabulary(self):
    smaller = table_model(7, seed=5)
    drafter = DraftModel(smaller.target, vocab_size=11, num_draft=3)
    got = self.base(drafter=drafter, drafter_params=smaller.params)
    assert got == self.base()
    larger = table_model(16, seed=5)
    drafter = DraftModel(larger.target, vocab_size=11, num_draft=3)
    assert self.base(drafter=drafter, drafter_params=larger.params) == self.base()


def save(path: pathlib.Path) -> pathlib.Path:
  """A whole Hugging Face directory of a Llama with one layer."""
  config = dict(
    model_type='llama',
    vocab_size=259,
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
    tie_word_embeddings=True,
  )
  shapes = {
    'model.embed_tokens.weight': (259, 8),
    'model.norm.weight': (8,),
    **{
      f'model.layers.0.{x}_layernorm.weight': (8,) for x in ('input', 'post_attention')
    },
    **{f'model.layers.0.self_attn.{x}_proj.weight': (8, 8) for x in 'qkvo'},
    **{f'model.layers.0.mlp.{x}_proj.weight': (8, 8) for x in ('gate', 'up', 'down')},
  }
  write_weights(path, {name: np.ones(s, np.float32) for name, s in shapes.items()})
  (path / 'config.json').write_text(json.dumps(config))
  toy_text.toy_tokenizer().backend.save(str(path / 'tokenizer.json'))
  return path


def write_weights(path: pathlib.Path, tensors: dict) -> None:
  safetensors_numpy.save_file(tensors, path / 'model.safetensors')


def change_weights(path: pathlib.Path, **changes) -> None:
  """Replaces tensors; None removes one."""
  tensors = safetensors_numpy.load_file(path / 'model.safetensors') | changes
  write_weights(path, {k: v for k, v in tensors.items() if v is not None})


def change_config(path: pathlib.Path, **changes) -> None:
  config = json.loads((path / 'config.json').read_text()) | changes
  (path / 'config.json').write_text(json.dumps(config))


def shorten(path: pathlib.Path, size: int) -> None:
  path.write_bytes(path.read_bytes()[:size])


NORM = 'model.norm.weight'
FILES = {
  'no config': (lambda d: (d / 'config.json').unlink(), 'no config.json'),
  'a config that is no JSON': (lambda d: shorten(d / 'config.json', 9), 'valid JSON'),
  'an unknown architecture': (
    lambda d: change_config(d, model_type='mamba'),
    "model_type 'mamba' is not supported; known: .*llama.*qwen3",
  ),
  'an unsupported option': (
    lambda d: change_config(d, rope_scaling={'rope_type': 'longrope', 'factor': 2.0}),
    'longrope',
  ),
  'no weights': (lambda d: (d / 'model.safetensors').unlink(), 'no weights'),
  'truncated weights': (
    lambda d: shorten(d / 'model.safetensors', 2000),
    'not a whole safetensors file.*2000 bytes',
  ),
  'a Git LFS pointer': (
    lambda d: (d / 'model.safetensors').write_text('version https://git-lfs'),
    'Git LFS pointer',
  ),
  'a missing tensor': (
    lambda d: change_weights(d, **{NORM: None}),
    '1 tensors missing.*model.norm.weight',
  ),
  'an unused tensor': (
    lambda d: change_weights(d, extra=np.ones(2, np.float32)),
    '1 unused.*extra',
  ),
  'a wrong shape': (
    lambda d: change_weights(d, **{NORM: np.ones(9, np.float32)}),
    r'model.norm.weight has shape \(9,\).*\(8,\)',
  ),
  'weights that are NaN': (
    lambda d: change_weights(d, **{NORM: np.full(8, np.nan, np.float32)}),
    'model.norm.weight.*not finite',
  ),
  'no tokenizer': (lambda d: (d / 'tokenizer.json').unlink(), 'no tokenizer.json'),
  'a broken tokenizer': (lambda d: shorten(d / 'tokenizer.json', 50), 'tokenizer.json'),
}


class TestFiles:
  @pytest.mark.parametrize('case', FILES)
  def test_a_checkpoint_is_refused(self, case, tmp_path):
    damage, message = FILES[case]
    specjax.load(save(tmp_path))
    damage(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
      specjax.load(tmp_path)

  def test_a_path_that_is_nowhere(self, tmp_path):
    with pytest.raises(FileNotFoundError, match='is not a directory'):
      specjax.load(tmp_path / 'no' / 'where')

  def test_a_file_that_is_no_gguf(self, tmp_path):
    (tmp_path / 'a.gguf').write_text('hello')
    with pytest.raises(ValueError, match='not a GGUF file'):
      specjax.load(tmp_path / 'a.gguf')


def a_run(tmp_path: pathlib.Path, **changes) -> None:
  """What `experiments.main` does, on a model that is there."""
  (tmp_path / 'prompts.jsonl').write_text(
    '{"question_id": 1, "category": "qa", "turns": ["Hi."]}\n'
  )
  config = common.compare()
  config.update(dict(prompts=str(tmp_path / 'prompts.jsonl'), repeats=1) | changes)
  workdir = rundir.create(tmp_path / 'run', config, {})
  chosen = questions.select(
    questions.load(config.prompts), config.num_prompts, config.split
  )
  compare.compare(TINY, chosen, config, workdir)


def method(drafter: dict, **more) -> dict:
  return dict(methods={'m': dict(drafter=drafter, **more)})


COPY = dict(name='prompt_lookup')
RUNS = {
  'no prompt file': (dict(prompts='nowhere.jsonl'), 'no prompt file at nowhere.jsonl'),
  'more prompts than there are': (dict(num_prompts=7), '7'),
  'a split without prompts': (dict(split='test'), 'test'),
  'an unknown split': (dict(split='train'), 'train'),
  'batches that are not filled': (dict(batch_size=2), '1 prompts do not fill.*2'),
  'no repeats': (dict(repeats=0), 'repeats must be at least 1, got 0'),
  'a seed of 33 bits': (dict(seed=2**32), 'seed must be below'),
  'output as long as the context': (dict(max_new_tokens=1024), 'context is 1024'),
  'an unknown drafter': (method(dict(name='medsua')), 'm: .*medsua.*prompt_lookup'),
  'a drafter without name': (method(dict(num_draft=3)), 'drafter has no name'),
  'an unknown setting': (method(COPY | dict(depth=3)), "does not take 'depth'"),
  'an unknown verifier': (method(COPY, verifier=dict(name='x')), 'm: .*x.*rejection'),
  'greedy at temperature 1': (
    method(COPY, verifier=dict(name='greedy'), temperature=1.0),
    'exact at temperature 0 only, not at 1.0',
  ),
  'a method without baseline': (method(COPY, temperature=0.5), 'm runs at.*0.5'),
  'an unknown method': (dict(only='x'), "no method 'x'; known: baseline"),
  'top_p 0': (dict(top_p=0.0), 'top_p must be in'),
}


class TestExperiments:
  @pytest.mark.parametrize('case', RUNS)
  def test_a_run_is_refused(self, case, tmp_path):
    changes, message = RUNS[case]
    with pytest.raises(ValueError, match=message):
      a_run(tmp_path, **changes)

  @pytest.mark.parametrize(
    'line, message',
    [
      ('{"question_id": 1', 'line 2: '),
      ('{"question_id": 1, "category": "qa", "turns": ["a"]}', '1 stands twice'),
      ('{"question_id": 2, "category": "qa"}', 'line 2: .*turns'),
      ('{"question_id": 2, "category": "qa", "turns": []}', 'line 2: .*turns'),
    ],
  )
  def test_a_prompt_file_is_refused(self, line, message, tmp_path):
    good = '{"question_id": 1, "category": "qa", "turns": ["Hi."]}'
    (tmp_path / 'p.jsonl').write_text(f'{good}\n{line}\n')
    with pytest.raises(ValueError, match=message):
      questions.load(tmp_path / 'p.jsonl')

  @pytest.mark.filterwarnings('ignore:the load_module')
  @pytest.mark.parametrize(
    'argument', ['--config.reapeats=2', '--config.repeats=two', '--config.methods=3']
  )
  def test_a_wrong_override_ends_in_one_line(self, argument, tmp_path, capsys):
    config = '--config=configs/experiments/demo.py'
    with pytest.raises(SystemExit) as ended:
      experiments_main.parse(['main', config, f'--workdir={tmp_path}/run', argument])
    said = f'{ended.value}{capsys.readouterr()}'
    assert argument.split('=')[0].split('.')[1] in said and 'Traceback' not in said
    flags.FLAGS.unparse_flags()

  def test_a_directory_that_holds_a_run(self, tmp_path):
    (tmp_path / 'run').mkdir()
    (tmp_path / 'run' / 'done').touch()
    with pytest.raises(ValueError, match='already holds a finished run'):
      a_run(tmp_path)

  def test_a_directory_of_something_else(self, tmp_path):
    (tmp_path / 'run').mkdir()
    (tmp_path / 'run' / 'thesis.tex').touch()
    with pytest.raises(ValueError, match='no config.json of a run: choose another'):
      a_run(tmp_path)

  def test_a_workdir_that_is_a_file(self, tmp_path):
    (tmp_path / 'run').touch()
    with pytest.raises(OSError, match='run'):
      a_run(tmp_path)

  def test_a_full_disk(self, tmp_path):
    full = tmp_path / 'results.jsonl'
    full.symlink_to('/dev/full')
    with pytest.raises(OSError, match='results.jsonl.*No space left'):
      rundir.append_lines(full, [{'method': 'm'}])
    (tmp_path / 'summary.json.new').symlink_to('/dev/full')
    with pytest.raises(OSError, match='summary.json.*No space left'):
      rundir.write_json(tmp_path / 'summary.json', {})
