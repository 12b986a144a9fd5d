"""Figures plot the numbers of their run, and are written as files."""

import json

import numpy as np
import pytest

from experiments import figures
from experiments.plots import acceptance, costs, speedups, style, sweeps, tree
from tests import figures_data as data


def legend(figure) -> list[str]:
  return [entry.get_text().replace('\n', '') for entry in figure.legends[0].texts]


def lines(axes) -> dict[str, list[tuple[float, float]]]:
  """{label: points} of what is in the legend."""
  return {
    line.get_label(): list(zip(line.get_xdata(), line.get_ydata()))
    for line in axes.lines
    if not line.get_label().startswith('_')
  }


def ends(axes) -> list[tuple[float, float, float]]:
  """(x, low, high) of all intervals."""
  bars = [bar for found in axes.collections for bar in found.get_segments()]
  return [(bar[0, 0], *bar[:, 1]) for bar in bars]


class TestSpeedups:
  def test_numbers(self):
    summary = data.summarized(data.EIGHT)
    figure = speedups.by_task(data.EIGHT, summary)
    assert legend(figure) == [*data.LONG, style.NOISE]
    (axes,) = figure.axes
    assert [t.get_text().replace('\n', '') for t in axes.get_xticklabels()] == [
      'all',
      *data.TASKS,
    ]
    for name, points in lines(axes).items():
      rows = [row for row in summary if row['method'] == name]
      xs, ys = zip(*points)
      assert np.round(xs).tolist() == list(range(7))
      assert list(ys) == [row['speedup'] for row in rows]
      assert {(x, *row['speedup_ci95']) for x, row in zip(xs, rows)} <= set(ends(axes))
    bands = axes.containers[0].patches
    assert [band.get_y() for band in bands] == pytest.approx([0.97] * 7)
    assert [band.get_height() for band in bands] == pytest.approx([0.06] * 7)
    assert any(list(line.get_ydata()) == [1, 1] for line in axes.lines)

  def test_without_intervals_and_without_a_second_baseline(self):
    about = {name: m for name, m in data.TWO.items() if name != 'baseline_again'}
    figure = speedups.by_task(about, data.summarized(about, (), intervals=False))
    assert legend(figure) == ['lookup', 'oracle']
    assert not ends(figure.axes[0]) and not figure.axes[0].containers
    assert figure.get_figwidth() == style.SINGLE

  def test_nothing_to_compare(self):
    about = data.baselines(0)
    assert set(data.drawn(about).values()) == {None}


class TestSweeps:
  def test_draft_length(self):
    summary = data.summarized(data.LENGTHS)
    rows = {row['method']: row for row in summary if row['category'] == 'all'}
    figure = sweeps.sweep(data.LENGTHS, summary, 'num_draft')
    assert legend(figure) == ['prompt_lookup', style.NOISE]
    for axes, field in zip(figure.axes, sweeps.PANELS):
      mine = [(k, rows[f'lookup_k{k}']) for k in (1, 2, 3, 4, 5, 8, 12)]
      assert lines(axes)['prompt_lookup'] == [(k, row[field]) for k, row in mine]
      assert ends(axes) == [(k, *row[f'{field}_ci95']) for k, row in mine]
    assert sweeps.sweep(data.LENGTHS, summary, 'temperature') is None

  def test_temperature(self):
    summary = data.summarized(data.TEMPERATURES)
    rows = {row['method']: row for row in summary if row['category'] == 'all'}
    found = sweeps.lines(data.TEMPERATURES, summary, 'temperature')
    assert found == {
      f'prompt_lookup, {verifier}': [
        (0.0, rows['lookup_t0']),
        (0.5, rows[f'lookup_{verifier}_t05']),
        (1.0, rows[f'lookup_{verifier}_t1']),
      ]
      for verifier in ('gumbel', 'rejection')
    }
    figure = sweeps.sweep(data.TEMPERATURES, summary, 'temperature')
    assert legend(figure) == [*found, style.NOISE]
    assert sweeps.sweep(data.TEMPERATURES, summary, 'num_draft') is None

  def test_lines_are_named_by_what_differs(self):
    oracle = lambda k, rate: data.method(
      k, drafter=dict(name='oracle', num_draft=k, rates=(rate,) * k)
    )
    lookup = lambda k, n: data.method(k, drafter=dict(name='lookup', max_ngram=n))
    about = data.baselines(0)
    about |= {f'o{k}_{rate}': oracle(k, rate) for k in (2, 4) for rate in (0.5, 1.0)}
    about |= {f'l{k}': lookup(k, 3) for k in (2, 4)} | {'alone': lookup(4, 2)}
    assert list(sweeps.lines(about, data.summarized(about), 'num_draft')) == [
      'oracle, rates = [0.5]',
      'oracle, rates = [1.0]',
      'lookup, max_ngram = 3',
    ]

  def test_a_tree_is_named_by_its_nodes(self):
    lookup = lambda t, tree: data.method(2, t, drafter=dict(name='lookup', tree=tree))
    about = data.baselines(0.5, 1.0)
    about |= {f'chain{t}': lookup(t, [[0], [0, 0]]) for t in (0.5, 1.0)}
    about |= {f'fork{t}': lookup(t, [[0], [1], [0, 0]]) for t in (0.5, 1.0)}
    assert list(sweeps.lines(about, data.summarized(about), 'temperature')) == [
      'lookup, 2 nodes',
      'lookup, 3 nodes',
    ]


class TestAcceptance:
  def test_by_depth(self):
    summary = data.summarized(data.EIGHT)
    left, right = acceptance.by_depth(data.EIGHT, summary).axes
    assert list(lines(left)) == data.LONG
    for row in summary[2 : 2 + len(data.LONG)]:
      shares = row['per_position_acceptance']
      points = enumerate(shares, 1)
      assert lines(left)[row['method']] == [(d, 100 * share) for d, share in points]
      ys = [y for _, y in lines(right)[row['method']]]
      assert ys == pytest.approx([100 * shares[0]] * len(shares))

  def test_drafts_that_are_never_right_are_a_line_at_0(self):
    summary = data.summarized(data.TWO)
    for row in summary:
      row['per_position_acceptance'] = [0.0, None] if row['method'] == 'lookup' else []
    left, _ = acceptance.by_depth(data.TWO, summary).axes
    assert list(lines(left)) == ['lookup'] and lines(left)['lookup'][0] == (1, 0.0)

  def test_conditional(self):
    shares = [0.8, 0.4, 0.0, 0.0, None]
    assert acceptance.conditional(shares) == [0.8, 0.5, 0.0, None, None]

  def test_tokens_per_round(self):
    rows = data.results(data.TWO)
    figure = acceptance.per_round(data.TWO, data.summarized(data.TWO), rows)
    titles = [axes.get_title().split('\n')[0] for axes in figure.axes]
    assert titles == ['lookup', 'oracle']
    for axes in figure.axes:
      # Rounds of the two rows: 5 4 3 2 1 and 6 5 4 3 2.
      heights = [bar.get_height() for bar in axes.patches]
      assert heights == pytest.approx([100 * n / 35 for n in (11, 9, 7, 5, 3)])
      places = [bar.get_x() + bar.get_width() / 2 for bar in axes.patches]
      assert places == pytest.approx([1, 2, 3, 4, 5])


def test_step_cost():
  rows = [*data.COSTS, data.COSTS[0] | dict(used=400)]  # one window is no line
  figure = costs.step_cost(rows)
  names = [f'batch {b}, 200 of 512 slots used' for b in (1, 3, 8)]
  assert legend(figure) == names
  for axes, field in zip(figure.axes, costs.PANELS):
    mine = [(row['window'], row[field]) for row in data.COSTS if row['batch'] == 3]
    assert lines(axes)[names[1]] == mine
  assert costs.step_cost([data.COSTS[0]]) is None


class TestTrees:
  def test_a_node_stands_above_its_children(self):
    place = tree.places([(0,), (1,), (0, 0), (0, 1)])
    wanted = {(): 1.25, (0,): 0.5, (1,): 2, (0, 0): 0, (0, 1): 1}
    assert place == wanted

  def test_shares_of_the_drafts_that_accepted_a_node(self):
    lookup = dict(name='lookup', tree=[[0, 0], [1], [0]])  # nodes: 0, 1, 00
    about = data.baselines(0) | {'bush': data.method(2, drafter=lookup)}
    rows = [row | dict(offered=[]) for row in data.results(about)]
    for row in rows:
      if row['method'] == 'bush':
        row |= dict(offered=[5, 5], node_accepted=[4, 1, 3])
    ((name, figure),) = tree.by_method(about, rows).items()
    (dots,) = (c for c in figure.axes[0].collections if len(c.get_offsets()) == 3)
    assert name == 'tree_bush'
    assert dots.get_offsets().tolist() == [[0, 1], [1, 1], [0, 2]]
    assert dots.get_array().tolist() == pytest.approx([80, 20, 60])
    edges = {tuple(map(tuple, line.get_xydata())) for line in figure.axes[0].lines}
    root = (0.5, 0)
    assert edges == {(root, (0, 1)), (root, (1, 1)), ((0, 1), (0, 2))}


class TestFiles:
  def test_a_comparison_is_drawn_and_drawn_again(self, tmp_path):
    summary, rows = data.summarized(data.TWO), data.results(data.TWO)
    figures.write(tmp_path, data.TWO, summary, rows)
    files = {file.name: file.read_bytes() for file in (tmp_path / 'plots').iterdir()}
    names = 'speedup_by_task', 'acceptance_by_depth', 'tokens_per_round'
    assert set(files) == {f'{n}.{kind}' for n in names for kind in ('pdf', 'png')}
    for name, content in files.items():
      assert content.startswith(b'%PDF' if name.endswith('pdf') else b'\x89PNG')
      assert b'/Type3' not in content
      assert name.endswith('png') or b'/FontFile2' in content
    for name, content in (('methods', data.TWO), ('summary', {'rows': summary})):
      (tmp_path / f'{name}.json').write_text(json.dumps(content))
    (tmp_path / 'results.jsonl').write_text('\n'.join(map(json.dumps, rows)) + '\n')
    (tmp_path / 'done').touch()
    figures.main(['figures', str(tmp_path)])
    for name, content in files.items():
      assert (tmp_path / 'plots' / name).read_bytes() == content

  def test_step_cost(self, tmp_path, caplog):
    caplog.set_level('INFO')  # as absl's mains have it
    (tmp_path / 'step_cost.json').write_text(json.dumps({'rows': data.COSTS}))
    (tmp_path / 'done').touch()
    figures.main(['figures', str(tmp_path)])
    assert {file.name for file in (tmp_path / 'plots').iterdir()} == {
      'step_cost.pdf',
      'step_cost.png',
    }
    assert not caplog.records

  def test_nothing_to_draw(self, tmp_path):
    with pytest.raises(SystemExit, match='usage: python -m experiments.figures RUN'):
      figures.main(['figures'])
    with pytest.raises(SystemExit, match='no finished run: there is no `done`'):
      figures.main(['figures', str(tmp_path)])
    (tmp_path / 'done').touch()
    with pytest.raises(
      SystemExit, match='holds no comparison, step_cost.json or tree_choice'
    ):
      figures.main(['figures', str(tmp_path)])
