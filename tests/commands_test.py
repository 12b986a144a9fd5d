"""Every command in README, docs and configs is right; each kind runs, but small."""

import importlib
import json
import pathlib
import re
import shlex
import types

import pytest
from absl import flags
from absl.testing import flagsaver
from ml_collections import config_flags

import specjax
import specjax_pytest
from experiments import agree, figures, generate, main, verify
from specjax.testing import tiny

ROOT = pathlib.Path(__file__).parent.parent
PAGES = ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))
CONFIGS = sorted((ROOT / 'configs' / 'experiments').glob('[a-z]*.py'))
PYTHON = r'(?:\.venv/bin/)?python -m '
SMALL = dict(num_prompts=2, max_new_tokens=4, repeats=1)
SMALL |= dict(phase_prompts=0, floor_positions=0)
SMALL_AUDIT = {
  'verifiers': "('rejection',)",
  'rows.drafters': 8000,
  'rows.decoding': 20_000,
}
pytestmark = pytest.mark.filterwarnings('ignore:the load_module')  # ml_collections'
COSTS = [dict(window=w, used=9, slots=64, batch=1, ratio_to_one=w) for w in (1, 4)]
TEXTS = 'abcabcabcabc', 'to be or not to be', 'one two one two', 'why, why, why'


def fenced(file: pathlib.Path) -> list[str]:
  """Commands that stand in blocks of a page, each as one line."""
  blocks = re.findall(r'^```(\w*)\n(.*?)^```', file.read_text(), re.DOTALL | re.M)
  lines = (
    '\n'.join(text for language, text in blocks if not language)
    .replace('\\\n', ' ')
    .splitlines()
  )
  return [line for line in lines if re.match(rf'{PYTHON}|make |pytest ', line)]


def inline(file: pathlib.Path) -> list[str]:
  """Commands inside a sentence, and those of a config's docstring."""
  text = file.read_text().replace('\\\n', ' ')
  quoted = re.findall(rf'`({PYTHON}[^`]+|make [^`]+|pytest -[^`]+)`', text)
  own_line = re.findall(rf'^{PYTHON}.+', text, re.MULTILINE)
  return quoted + (own_line if file.suffix == '.py' else [])


FENCED = {line: None for page in PAGES for line in fenced(page)}
COMMANDS = [*FENCED, *(line for file in (*PAGES, *CONFIGS) for line in inline(file))]


def split(command: str) -> list[str]:
  """Its words; `[...]` marks what may be left out."""
  return shlex.split(re.sub(r'[\[\]]', '', command), comments=True)


def config_of(words: list[str]) -> tuple:
  """The flags of `experiments.main`, apart from the process's own, and holders."""
  known = flags.FlagValues()
  argv = ['main', *words]
  config = config_flags.DEFINE_config_file(
    'config', None, '', flag_values=known, lock_config=True, sys_argv=argv
  )
  workdir = flags.DEFINE_string('workdir', None, '', flag_values=known)
  assert known(argv) == ['main']
  return known, config, workdir


def test_commands_are_found():
  programs = {split(line)[2] for line in FENCED if ' -m ' in line}
  assert programs >= {'experiments.main', 'experiments.verify', 'experiments.generate'}
  assert len([line for line in COMMANDS if 'experiments.main' in line]) >= 10


@pytest.mark.parametrize('command', dict.fromkeys(COMMANDS))
def test_a_command_is_right(command, monkeypatch):
  monkeypatch.chdir(ROOT)
  program, *words = split(command)
  if program == 'make':
    assert re.search(rf'^{words[0]}:.* ## ', pathlib.Path('Makefile').read_text(), re.M)
  elif program == 'pytest':
    assert {word.split('=')[0].strip('-') for word in words} <= set(
      specjax_pytest.KINDS
    )
  elif words[1] == 'experiments.main':
    known, config, _ = config_of(words[2:])
    assert config.value.experiment and known['workdir'].value == 'DIR'
  else:
    source = pathlib.Path(*words[1].split('.')).with_suffix('.py').read_text()
    names = re.findall(r"flags\.DEFINE_\w+\(\s*'(\w+)'", source)
    given = [word.split('=')[0][2:] for word in words[2:] if word.startswith('--')]
    assert '__main__' in source and set(given) <= set(names)


@pytest.fixture(scope='module')
def small(tmp_path_factory, compile_quickly):
  """A prompt file and a place for runs; loading gives a tiny model."""
  folder = tmp_path_factory.mktemp('commands')
  prompts = [
    dict(question_id=i, category='qa', turns=[text]) for i, text in enumerate(TEXTS)
  ]
  (folder / 'prompts.jsonl').write_text('\n'.join(map(json.dumps, prompts)))
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(specjax, 'load', lambda source: tiny.tiny_model())
    yield folder


def run_main(words: list[str], monkeypatch) -> None:
  known, config, workdir = config_of(words)
  for name, value in dict(
    _CONFIG=config, _WORKDIR=workdir, flags=types.SimpleNamespace(FLAGS=known)
  ).items():
    monkeypatch.setattr(main, name, value)
  main.main(['main'])


def test_comparisons_run_and_are_verified_and_drawn(small, monkeypatch, capsys):
  monkeypatch.chdir(ROOT)
  commands = {
    config: split(line)[3:]
    for line in FENCED
    if ' experiments.main ' in line and 'audit.py' not in line
    for config in re.findall(r'--config=\S+/(\w+)\.py', line)
  }
  assert set(commands) == {'demo', 'spec_bench'}
  monkeypatch.setattr(figures, 'write', lambda *run: None)  # once is enough, below
  settings = SMALL | dict(prompts=small / 'prompts.jsonl')
  for name, words in commands.items():
    words = [word.replace('DIR', str(small / name)) for word in words]
    words += [f'--config.{field}={value}' for field, value in settings.items()]
    run_main(words, monkeypatch)
    assert (small / name / 'done').exists()
  run = str(small / 'demo')
  with pytest.raises(SystemExit) as ended:
    verify.main(['verify', run])
  assert ended.value.code == 0
  with pytest.raises(SystemExit, match='at least 2'):
    agree.main(['agree', run, run])
  monkeypatch.undo()
  figures.main(['figures', run])
  assert list((small / 'demo' / 'plots').glob('*.pdf'))


def test_a_drafter_is_audited(small, monkeypatch):
  (command,) = (line for line in FENCED if 'audit.py' in line)
  page = (ROOT / 'docs' / 'new_drafter.md').read_text()
  module = re.findall(r'```python\n(.*?)```', page, re.DOTALL)[0]
  (small / 'last_seen.py').write_text(module)
  monkeypatch.syspath_prepend(small)
  monkeypatch.chdir(ROOT)
  words = [word.replace('DIR', str(small / 'audit')) for word in split(command)[3:]]
  words += [f'--config.{field}={value}' for field, value in SMALL_AUDIT.items()]
  run_main(words, monkeypatch)
  assert (small / 'audit' / 'done').exists()
  table = (small / 'audit' / 'table.md').read_text()
  assert re.search(r'last_seen \| rejection +\| law +\| pass', table), table


def test_an_answer_is_generated(small, capsys):
  (command,) = (line for line in FENCED if 'experiments.generate' in line)
  given = dict(word[2:].split('=', 1) for word in split(command)[3:])
  flags.FLAGS.mark_as_parsed()
  with flagsaver.as_parsed(**given | dict(max_new_tokens='4')):
    generate.main(['generate'])
  flags.FLAGS.unparse_flags()
  assert '4 tokens in' in capsys.readouterr().out


def test_pictures_of_another_measurement(tmp_path, monkeypatch):
  (command,) = (line for line in FENCED if 'docs.pictures' in line)
  monkeypatch.syspath_prepend(ROOT)
  pictures = importlib.import_module('docs.pictures')
  numbers = (ROOT / 'docs' / 'numbers.json').read_text()
  (tmp_path / 'numbers.json').write_text(numbers)
  monkeypatch.setattr(pictures, 'HERE', tmp_path)
  (tmp_path / 'step_cost.json').write_text(json.dumps({'rows': COSTS}))
  pictures.main([split(command)[3].replace('PATH', str(tmp_path))])
  assert (tmp_path / 'images' / 'price_of_a_call.png').exists()
