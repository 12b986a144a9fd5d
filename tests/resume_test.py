"""A comparison that was killed at any moment goes on, and loses and doubles nothing."""

import json
import random

import pytest

from configs import common
from experiments import compare, measure, questions, records, resume, rundir
from specjax.testing import tiny

pytestmark = pytest.mark.usefixtures('compile_quickly')

METHODS, PROMPTS, REPEATS = ('a', 'b'), 4, 3
GROUPS = [(prompt, repeat) for prompt in range(PROMPTS) for repeat in range(REPEATS)]
KEYS = [[(method, *group, 1) for method in METHODS] for group in GROUPS]
TIMES = 'prefill_s', 'decode_s', 'order'
WARM = {0: measure.Warm(0.5, 0.1, 'none'), 3: measure.Warm(0.5, 0.1, 'deterministic')}


def lines(group) -> list[str]:
  rows = [
    dict(method=m, prompt_id=group[0], repeat=group[1], turn=1, text='é' * 3)
    for m in METHODS
  ]
  return [json.dumps(row, ensure_ascii=False) + '\n' for row in rows]


def run_on(files, groups, written: float = float('inf')) -> None:
  """Appends the groups to both files, one after the other, up to so many bytes."""
  for group in groups:
    for file in files:
      content = ''.join(lines(group)).encode()
      with file.open('ab') as out:
        out.write(content[: int(min(written, len(content)))])
      written -= len(content)
      if written <= 0:
        return


def test_killed_after_any_byte_of_any_file(tmp_path):
  files = [tmp_path / 'results.jsonl', tmp_path / 'outputs.jsonl']
  size = 2 * sum(len(''.join(lines(group)).encode()) for group in GROUPS)
  rng = random.Random(0)
  for _ in range(200):
    for file in files:
      file.unlink(missing_ok=True)
    todo = GROUPS
    for _ in range(rng.randrange(4)):  # killed so often
      run_on(files, todo, rng.randrange(1, size))
      todo = resume.left(files, GROUPS, KEYS)
    run_on(files, todo)
    assert resume.left(files, GROUPS, KEYS) == []
    for file in files:
      rows = [records.key(row) for row in resume.read(file)]
      assert sorted(rows) == sorted(key for group in KEYS for key in group)


TEXTS = 'abcabcabcabc', 'to be or not to be'
QUESTIONS = [
  questions.Prompt(i, i, 'qa', (text, 'Why?')) for i, text in enumerate(TEXTS)
]


@pytest.fixture
def config():
  c = common.compare()
  c.max_new_tokens, c.repeats, c.phase_prompts = 8, 2, 2
  c.floor_positions = 0
  c.methods.lookup = dict(drafter=dict(name='prompt_lookup', num_draft=3))
  return c


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
  """They take longer to draw than these runs."""
  monkeypatch.setattr(compare.figures, 'write', lambda *_: None)


def without_times(path) -> list[dict]:
  rows = resume.read(path / 'results.jsonl')
  rows = [{k: v for k, v in row.items() if k not in TIMES} for row in rows]
  return sorted(rows, key=records.key)


@pytest.mark.parametrize('calls', [1, 4, 7, 15, 17])
def test_a_comparison_goes_on_where_it_was(config, tmp_path, monkeypatch, calls):
  model = tiny.tiny_model()

  def start(path):
    workdir = rundir.create(path, config, {})
    return compare.compare(model, QUESTIONS, config, workdir)

  def killed_at(function):
    def call(*args):
      left[0] -= 1
      if left[0] == 0:
        raise KeyboardInterrupt
      return function(*args)

    return call

  whole = start(tmp_path / 'whole')
  left = [calls]
  with monkeypatch.context() as patch:
    for name in ('run', 'rounds'):
      patch.setattr(measure, name, killed_at(getattr(measure, name)))
    # Only what is timed gets killed, not the warm-up.
    patch.setattr(compare, 'warmed_up', lambda _, m: WARM[m.drafter.num_draft])
    with pytest.raises(KeyboardInterrupt):
      start(tmp_path / 'killed')
  results = tmp_path / 'killed' / 'results.jsonl'
  if results.exists():
    with results.open('ab') as file:
      file.write(b'{"method": "base')  # it was in the middle of a line
  resumed = start(tmp_path / 'killed')
  assert without_times(tmp_path / 'killed') == without_times(tmp_path / 'whole')
  phases = [resume.read(tmp_path / x / 'phases.jsonl') for x in ('killed', 'whole')]
  assert len({*map(len, phases)}) == 1
  exact = 'method', 'category', 'n_prompts', 'mean_accepted_length', 'acceptance_rate'
  pick = lambda summary: [[row[name] for name in exact] for row in summary]
  assert pick(resumed) == pick(whole)


class TestWhatGoesOn:
  def unfinished(self, tmp_path, config):
    rundir.create(tmp_path, config, {})
    rundir.append_lines(tmp_path / 'results.jsonl', [])

  def test_the_same_run(self, tmp_path, config):
    self.unfinished(tmp_path, config)
    assert rundir.create(tmp_path, config, {}) == tmp_path

  def test_not_another_config(self, tmp_path, config):
    self.unfinished(tmp_path, config)
    config.max_new_tokens = 9
    with pytest.raises(ValueError, match='another max_new_tokens.*: 8, now 9'):
      rundir.create(tmp_path, config, {})

  def test_not_other_code(self, tmp_path, config):
    self.unfinished(tmp_path, config)
    env = json.loads((tmp_path / 'env.json').read_text())
    rundir.write_json(tmp_path / 'env.json', env | {'python': '2.7'})
    with pytest.raises(ValueError, match="another python in env.json: '2.7'"):
      rundir.create(tmp_path, config, {})

  def test_not_a_finished_run(self, tmp_path, config):
    self.unfinished(tmp_path, config)
    rundir.finish(tmp_path)
    with pytest.raises(ValueError, match='finished run: choose another'):
      rundir.create(tmp_path, config, {})

  def test_not_somebody_elses_directory(self, tmp_path, config):
    (tmp_path / 'thesis.tex').touch()
    with pytest.raises(ValueError, match='no config.json of a run'):
      rundir.create(tmp_path, config, {})
