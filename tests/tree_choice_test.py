"""From a run's counts and a table of costs to the fastest tree, worked by hand."""

import json

import numpy as np
import pytest

from configs.experiments import row_cost, tree_choice, tree_dev, tree_test
from experiments import figures, step_cost
from experiments import tree_choice as experiment
from specjax import trees
from tests.summarize_test import repeated

TREE = [[0], [1], [0, 0], [0, 1], [1, 0]]
# Of 100 rounds that draft; 100 do not. 344 tokens; the baseline gives 50 a second.
ACCEPTED = [60, 20, 48, 0, 16]
RATES = [[0.6, 0.2], [0.8, 0.0]]
UNDRAFTED = 100 / 344
COSTS = {1: 1.0, 2: 1.1, 4: 1.3, 5: 1.42, 6: 2.5}


def write_run(path, about, rows=(), phases=(), summary=()):
  path.mkdir()
  (path / 'methods.json').write_text(json.dumps(about))
  (path / 'summary.json').write_text(json.dumps({'rows': summary}))
  for name, lines in (('results', rows), ('phases', phases)):
    text = ''.join(json.dumps(line) + '\n' for line in lines)
    (path / f'{name}.jsonl').write_text(text)
  (path / 'done').touch()
  return str(path)


@pytest.fixture
def config(tmp_path):
  """Finished runs of dev and of row costs."""
  plain = dict(against='baseline', drafter=dict(name='autoregressive'), num_draft=0)
  lookup = lambda k, **more: dict(
    against='baseline', num_draft=k, drafter=dict(name='lookup_tree', **more)
  )
  half = dict(target_calls=100, offered=[50, 50], node_accepted=[30, 10, 24, 0, 8])
  half |= dict(new_tokens=172)
  dev = write_run(
    tmp_path / 'dev',
    dict(baseline=plain, wide=lookup(2, tree=TREE)),
    [
      *repeated('baseline', 1, [0.5, 0.4, 0.3]),
      *repeated('wide', 1, [0.2], **half),
      *repeated('wide', 2, [0.2], **half),
    ],
    [dict(method='wide', draft_s=0.002), dict(method='wide', draft_s=0.006)],
  )
  costs = write_run(tmp_path / 'costs', {})
  rows = [
    dict(window=t, used=9, slots=256, batch=1, ms_min=1, ms_median=1, ratio_to_one=r)
    for t, r in COSTS.items()
  ]
  (tmp_path / 'costs' / 'step_cost.json').write_text(json.dumps({'rows': rows}))
  test = write_run(
    tmp_path / 'test',
    dict(
      baseline=plain,
      chain=lookup(2),
      fork=lookup(2, tree=TREE[:3]),
      other=dict(against='baseline', num_draft=2, drafter=dict(name='oracle')),
    ),
    summary=[
      dict(
        method=name,
        category=category,
        tokens_per_second=speed,
        mean_accepted_length=speed / 40,
        speedup=speed / 50,
      )
      for category, factor in (('all', 1), ('qa', 2))
      for name, speed in dict(
        baseline=50 * factor, chain=60 * factor, fork=70 * factor, other=0
      ).items()
    ],
  )
  config = tree_choice.get_config()
  config.dev, config.costs, config.trees = dev, costs, dict(bush=TREE)
  return config, test


def speed(nodes: int, depth: int, tokens: float) -> float:
  """A draft step takes 2 ms, one row 20 ms."""
  cost = np.interp(nodes + 1, list(COSTS), list(COSTS.values()))
  drafting = (1 - UNDRAFTED) / tokens  # rounds a token
  seconds = drafting * (0.002 * depth + 0.02 * cost)
  return 1 / (seconds + UNDRAFTED * (0.002 * depth + 0.02))


def test_prediction_by_hand(config, tmp_path):
  config, _ = config
  config.copies = False
  experiment.run(config, tmp_path)
  found = json.loads((tmp_path / 'tree_choice.json').read_text())
  np.testing.assert_allclose(found['rates'], RATES, rtol=1e-12)
  assert found['undrafted'] == UNDRAFTED and found['draft_s'] == pytest.approx(0.002)
  ratios = np.array([1, 1.1, 1.2, 1.3, 1.42, 2.5])
  np.testing.assert_allclose(found['verify_s'], 0.02 * ratios, rtol=1e-12)
  rows = {row['name']: row for row in found['rows']}
  tokens = dict(plain=1.0, chain=2.08, widths=2.44, bush=2.44, fastest=2.28)
  shapes = dict(plain=(0, 0), chain=(2, 2), widths=(4, 2), bush=(5, 2), fastest=(3, 2))
  assert list(rows) == ['plain', 'chain', 'widths', 'bush', 'fastest']
  for name, row in rows.items():
    assert (row['nodes'], row['depth']) == shapes[name]
    tau = 1 / (UNDRAFTED + (1 - UNDRAFTED) / tokens[name])
    assert row['predicted_tau'] == pytest.approx(tau)
    told = speed(*shapes[name], tokens[name])
    assert row['predicted_tokens_per_second'] == pytest.approx(told)
    assert row['predicted_speedup'] == pytest.approx(told / 50)
    assert row['tokens_per_second'] is None
  assert rows['fastest']['paths'] == [[0], [1], [0, 0]]
  drawing = (tmp_path / 'tree.txt').read_text()
  assert 'tree=((0,), (1,), (0, 0))' in drawing and '└─ 0  0.48' in drawing
  assert 'bush' in (tmp_path / 'table.md').read_text()
  (tmp_path / 'done').touch()
  picture = (tmp_path / 'plots' / 'tree.png').read_bytes()
  figures.redraw(tmp_path)
  assert (tmp_path / 'plots' / 'tree.png').read_bytes() == picture


def test_measured_speeds_stand_beside_the_predicted_ones(config, tmp_path):
  config, config.test = config
  experiment.run(config, tmp_path)
  rows = json.loads((tmp_path / 'tree_choice.json').read_text())['rows']
  assert [row['name'] for row in rows] == ['baseline', 'chain', 'fork']
  assert [row['tokens_per_second'] for row in rows] == [50, 60, 70]
  assert [row['nodes'] for row in rows] == [0, 2, 3]
  assert [row['speedup'] for row in rows] == [1, 1.2, 1.4]
  tokens = trees.copied_tokens(trees.from_paths(TREE[:3]), RATES)
  told = speed(3, 2, tokens)
  assert rows[2]['predicted_tokens_per_second'] == pytest.approx(told)


@pytest.mark.parametrize(
  ('field', 'value', 'message'),
  [
    ('dev', '', "config.dev = '' is no finished run"),
    ('costs', 'nowhere', "config.costs = 'nowhere' is no finished run"),
    ('method', 'narrow', r"no 'narrow' with a static tree, but \['baseline', 'wide'\]"),
    ('method', 'baseline', "no 'baseline' with a static tree"),
  ],
)
def test_what_is_missing_is_said(config, tmp_path, field, value, message):
  config, _ = config
  config[field] = value
  with pytest.raises(ValueError, match=message):
    experiment.run(config, tmp_path)


def test_costs_of_two_places_are_refused():
  row = dict(window=1, slots=256, batch=1, ms_min=1, ms_median=1, ratio_to_one=1)
  rows = [step_cost.Row(used=used, **row) for used in (10, 20)]
  with pytest.raises(ValueError, match='costs of one place'):
    experiment.row_costs(rows)


def test_all_widths_within_the_limits():
  assert list(experiment.width_lists(3, 2, 2)) == [(), (1,), (1, 1), (1, 2), (2,)]
  found = list(experiment.width_lists(20, 3, 4))
  assert len(found) == len(set(found))
  for widths in found:
    tree = trees.from_widths(widths)
    assert len(tree.static) <= 20 and trees.max_depth(tree) == len(widths)
  assert (3, 1, 4) in found and (4, 4) in found and (3, 1, 5) not in found


def test_the_published_configs_fit_together():
  windows = [case[0] for case in row_cost.get_config().cases]
  wide = tree_dev.get_config().methods.wide.drafter
  measured = trees.acceptance_rates(
    trees.from_paths(wide.tree), [1] * len(wide.tree), 1
  )
  assert trees.max_depth(trees.from_paths(wide.tree)) == wide.num_draft
  for method in tree_test.get_config().methods.values():
    paths = method.drafter.get('tree', ())
    tree = trees.from_paths(paths)
    assert len(paths) < max(windows)
    assert trees.max_depth(tree) == method.drafter.get('num_draft', 0)
    assert all(chance > 0 for chance in trees.path_chances(tree, measured))
