"""The pages in docs: their Python runs, and their numbers are those of the code."""

import importlib
import itertools
import json
import pathlib
import re

import numpy as np
import pytest

import specjax
from experiments import summarize
from specjax import acceptance
from specjax.drafters.oracle import Oracle
from specjax.testing.table import table_model

ROOT = pathlib.Path(__file__).parent.parent
GLOSSARY, HOW, STATISTICS, TREES = (
  (ROOT / 'docs' / f'{name}.md').read_text()
  for name in ('glossary', 'how_it_works', 'statistics', 'trees')
)
NUMBERS = json.loads((ROOT / 'docs' / 'numbers.json').read_text())
EMPTY = dict(
  drafted=0,
  accepted=0,
  prefill_s=0.0,
  repeat8=0.0,
  loop_onset=None,
  repeat=0,
  turn=1,
  batch_size=1,
  tokens_sha256='x',
)
EMPTY |= dict(accepted_from=dict(prompt=0, output=0, draft=0), task='qa')
EMPTY |= dict(calls_by_position=[0] * 7, tokens_by_position=[0] * 7)
EMPTY |= dict(identical_to_baseline=None, accepted_histogram=[0], offered=[])
ABOUT = dict(against='baseline', batch_size=1, lossless=True, temperature=0.0)
ABOUT |= dict(drafter=dict(name='x'), num_draft=3, compile_s=0.0)


def table(page: str, corner: str) -> dict[str, list[str]]:
  """The cells of the table that begins with `corner`, by the first cell of each row."""
  lines = page[page.index(f'\n| {corner} |') + 1 :].split('\n\n')[0].splitlines()
  rows = [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]
  return {row[0]: row[1:] for row in rows if not row[0].startswith('---')}


def numbers(cells: list[str]) -> list[float]:
  return [float(cell) for cell in cells]


@pytest.mark.parametrize('page', [GLOSSARY, HOW, STATISTICS, TREES])
def test_python_runs(page, monkeypatch):
  monkeypatch.chdir(ROOT)
  names: dict = {}
  blocks = re.findall(r'```python\n(.*?)```', page, re.DOTALL)
  assert blocks
  for block in blocks:
    exec(compile(block, 'page', 'exec'), names)  # noqa: S102


def five_rounds() -> list[dict]:
  """The glossary's five rounds as a row of results, and a baseline's."""
  rounds = {name: numbers(row) for name, row in table(GLOSSARY, 'round | 1').items()}
  drafted, accepted = rounds['drafted'], rounds['accepted']
  row = dict(
    new_tokens=sum(rounds['emitted']),
    target_calls=len(drafted),
    drafted=sum(drafted),
    accepted=sum(accepted),
    accepted_histogram=[accepted.count(n) for n in range(4)],
    offered=[sum(n > depth for n in drafted) for depth in range(3)],
    decode_s=sum(rounds['ms']) / 1000,
  )
  plain = dict(new_tokens=11, target_calls=11, decode_s=0.275)
  both = dict(m=row, baseline=plain)
  return [
    EMPTY | dict(method=name, prompt_id=0, batch=0) | r for name, r in both.items()
  ]


def five_questions() -> list[dict]:
  cells = {name: numbers(row) for name, row in table(GLOSSARY, 'question | 1').items()}
  tokens, calls = cells['new tokens'], cells['target calls']
  both = dict(baseline=(cells['baseline s'], tokens), m=(cells['method s'], calls))
  return [
    EMPTY
    | dict(method=method, prompt_id=i, batch=i, new_tokens=n, target_calls=c)
    | dict(decode_s=s)
    for method, (seconds, calls) in both.items()
    for i, (n, c, s) in enumerate(zip(tokens, calls, seconds))
  ]


@pytest.mark.parametrize('rows, part', [(five_rounds, 0), (five_questions, 1)])
def test_fields_have_the_values_of_the_glossary(rows, part):
  ms = numbers(table(GLOSSARY, 'round | 1')['ms'])
  phases = [
    dict(method=name, prompt_ids=[0], draft_s=0.0) for name in ('m', 'baseline')
  ]
  phases = [
    p | dict(round_s=[x / 1000 for x in ms] * 2, round_drafted=[True] * 10)
    for p in phases
  ]
  about = dict(m=ABOUT, baseline=ABOUT | dict(num_draft=0))
  summary = summarize.summarize(about, rows(), phases)
  overall = next(row for row in summary if row['method'] == 'm')
  page = GLOSSARY.split('\n## Five questions')[part]
  checked = table(page, 'field')
  for name, cells in checked.items():
    if name.startswith('`'):
      value = [float(x) for x in cells[-1].split(',')]
      assert np.ravel(overall[name.strip('`')]) == pytest.approx(value, rel=5e-5), name
  assert len(checked) == 6


def test_the_five_rounds_happen():
  model = table_model(11)
  prompt = [1, 2, 3]
  (plain,) = specjax.decode(model, [prompt], max_new_tokens=40, stop_ids=())
  rounds = {name: numbers(row) for name, row in table(GLOSSARY, 'round | 1').items()}
  script = [a if d else -1 for d, a in zip(rounds['drafted'], rounds['accepted'])]
  stream = specjax.stream(
    model,
    prompt,
    drafter=Oracle(3, 11, script=tuple(map(int, script))),
    drafter_params=np.array([prompt + plain.tokens], np.int32),
    max_new_tokens=40,
    stop_ids=(),
  )
  emitted = [len(tokens) for tokens, _ in itertools.islice(stream, 5)]
  assert emitted == rounds['emitted']


def test_speed_ups_follow_from_the_prices():
  cells = table(HOW, 'free draft, K')
  depths = list(map(int, cells['free draft, K']))
  price = dict(zip(NUMBERS['step_cost']['tokens'], NUMBERS['step_cost']['ratio']))
  assert numbers(cells['cost(K + 1)']) == [price[k + 1] for k in depths]
  for a in (0.3, 0.6, 0.8):
    want = [(1 + acceptance.chain(a, k)) / price[k + 1] for k in depths]
    assert numbers(cells[f'speed-up, a = {a}']) == pytest.approx(want, abs=0.005)


def test_prices_are_the_readmes():
  """If they are measured anew: change numbers.json, run `python -m docs.pictures`."""
  readme = (ROOT / 'README.md').read_text()
  cells, cost = table(readme, 'tokens scored'), NUMBERS['step_cost']
  assert numbers(cells['tokens scored']) == cost['tokens']
  assert numbers(cells['ms']) == cost['ms']
  assert numbers(cells["of one token's"]) == cost['ratio']


def test_statistics_names_every_field():
  named = set(re.findall(r'`(\w+)`', STATISTICS))
  summary = summarize.summarize(
    dict(m=ABOUT | dict(against='m')),
    [dict(row, method='m') for row in five_questions()[5:]],
    [
      dict(
        method='m',
        prompt_ids=[0],
        draft_s=0,
        round_s=[1] * 10,
        round_drafted=[False] * 10,
      )
    ],
  )
  assert set(summary[0]) <= named | set(re.findall(r'`(\w+)`', GLOSSARY))


def test_pictures_are_drawn(tmp_path, monkeypatch):
  monkeypatch.syspath_prepend(ROOT)
  pictures = importlib.import_module('docs.pictures')
  committed = {file.name for file in (ROOT / 'docs' / 'images').iterdir()}
  assert committed == set(re.findall(r'images/(\w+\.png)', HOW))
  (tmp_path / 'numbers.json').write_text(json.dumps(NUMBERS))
  monkeypatch.setattr(pictures, 'HERE', tmp_path)
  pictures.main([])
  assert {file.name for file in (tmp_path / 'images').iterdir()} == committed


def test_links_lead_somewhere():
  for file in (*(ROOT / 'docs').glob('*.md'), ROOT / 'README.md'):
    for link in re.findall(r'\]\(([^)]+)\)', file.read_text()):
      if not link.startswith('http'):
        assert (file.parent / link.split('#')[0]).exists(), (file.name, link)
