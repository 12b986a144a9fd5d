"""No text of a figure overlaps another or is cut off; all is readable in grey."""

import itertools

import pytest
from matplotlib import text

from configs import common
from experiments.plots import costs, style, tree
from tests import figures_data as data

TEN = [f'task_number_{i}' for i in range(10)]
LABELS = {
  'task',
  'speed-up (× plain decoding)',
  'tau (tokens per target call)',
  'draft length K (tokens)',
  'temperature T',
  'depth in the draft (tokens)',
  'accepted, of drafts\nthat deep (%)',
  'accepted, if the one\nbefore was (%)',
  'tokens scored per call, T',
  'time per target call (ms)',
  'time (× that of one token)',
}


LABEL = (lambda axes: axes.get_xlabel()), (lambda axes: axes.get_ylabel())


def texts(figure) -> list[text.Text]:
  """All that can be read, laid out; ticks outside their axis are not drawn."""
  figure.draw_without_rendering()
  unseen = set()
  for axes in figure.axes:
    for axis in (axes.xaxis, axes.yaxis):
      low, high = sorted(axis.get_view_interval())
      ticks = itertools.chain(axis.get_major_ticks(), axis.get_minor_ticks())
      for tick in ticks:
        if not low <= tick.get_loc() <= high:
          unseen |= {tick.label1, tick.label2}
  found = figure.findobj(text.Text)
  return [t for t in found if t.get_visible() and t.get_text() and t not in unseen]


def check_layout(figure) -> None:
  """No text leaves the figure, is small, or overlaps another text."""
  found = texts(figure)
  boxes = [t.get_window_extent() for t in found]
  for t, box in zip(found, boxes):
    assert t.get_fontsize() >= 8, t
    low, high = figure.bbox.min - 1, figure.bbox.max + 1
    assert (box.min >= low).all() and (box.max <= high).all(), t
  for (t, box), (other, its) in itertools.combinations(zip(found, boxes), 2):
    assert not box.overlaps(its), (t, other)


class TestLooks:
  @pytest.mark.parametrize(
    ('about', 'tasks'),
    [
      (data.EIGHT, data.TASKS),
      (data.EIGHT, TEN),
      (data.TWO, ()),
      (data.LENGTHS, data.TASKS[:3]),
      (data.TEMPERATURES, data.TASKS),
    ],
  )
  def test_layout_and_labels(self, about, tasks):
    for name, figure in data.drawn(about, tasks).items():
      if figure is None:
        continue
      check_layout(figure)
      assert figure.get_figwidth() in (style.SINGLE, style.DOUBLE)
      if name == 'rounds':
        assert figure.get_supxlabel() == 'tokens per round (accepted drafts + 1)'
        assert figure.get_supylabel() == 'share of rounds (%)'
      else:
        assert {f(axes) for axes in figure.axes for f in LABEL} <= LABELS

  def test_step_cost(self):
    figure = costs.step_cost(data.COSTS)
    check_layout(figure)
    assert {f(axes) for axes in figure.axes for f in LABEL} <= LABELS

  @pytest.mark.parametrize(
    'paths', [common.MEDUSA_63, ((0,),), common.widths(*[1] * 12)]
  )
  def test_a_tree(self, paths):
    figure = tree.drawn(paths, [0.5 ** len(path) for path in paths])
    check_layout(figure)
    labels = {f(axes) for axes in figure.axes for f in LABEL}
    assert labels == {tree.RANKS, tree.DEPTH, tree.SHARE, ''}

  def test_methods_differ_in_grey(self):
    looks = style.looks([str(i) for i in range(36)]).values()
    assert len({(look['marker'], look['linestyle']) for look in looks}) == 36
    figures_of = data.drawn(data.EIGHT)
    for figure in (figures_of['tasks'], figures_of['depths']):
      shown = [line for line in figure.axes[0].lines if line.get_label() in data.LONG]
      assert len(shown) == len(data.LONG)
      assert len({line.get_marker() for line in shown}) == len(shown)

  def test_names_are_wrapped(self):
    assert style.wrapped('one_two-three four', 8) == 'one_two-\nthree\nfour'
    assert style.wrapped('abcdefghij_k', 4) == 'abcd\nefgh\nij_k'
