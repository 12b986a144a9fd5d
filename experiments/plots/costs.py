"""What a target call costs against the tokens it scores."""

from collections.abc import Mapping, Sequence

from matplotlib import figure, ticker

from experiments.plots import style

WINDOW = 'tokens scored per call, T'
PANELS = {
  'ms_median': 'time per target call (ms)',
  'ratio_to_one': 'time (× that of one token)',
}


@style.styled
def step_cost(rows: Sequence[Mapping]) -> figure.Figure | None:
  """Medians over repeats, and their ratio to one token's; a line a setting.

  Args:
    rows: rows of step_cost.json.
  """
  found = lines(rows)
  if not found:
    return None
  drawn, (panels,) = style.new(style.DOUBLE, 2.3, columns=len(PANELS))
  handles = []
  for axes, (field, label) in zip(panels, PANELS.items()):
    for (name, line), look in zip(found.items(), style.looks(list(found)).values()):
      xs = [row['window'] for row in line]
      handles += axes.plot(xs, [row[field] for row in line], **look, label=name)
    axes.set_xscale('log', base=2)
    axes.xaxis.set_major_formatter(ticker.FormatStrFormatter('%d'))
    axes.set(xlabel=WINDOW, ylabel=label)
    axes.set_ylim(bottom=0)
  panels[1].axhline(1, **style.REFERENCE)
  style.legend(drawn, handles[: len(found)])
  return drawn


def lines(rows: Sequence[Mapping]) -> dict[str, list[Mapping]]:
  """{setting: its rows by T} of all settings with at least two T."""
  settings: dict[str, list[Mapping]] = {}
  for row in sorted(rows, key=lambda row: row['window']):
    name = f'batch {row["batch"]}, {row["used"]} of {row["slots"]} slots used'
    settings.setdefault(name, []).append(row)
  return {name: line for name, line in settings.items() if len(line) > 1}
