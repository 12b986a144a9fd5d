"""Draws the pictures of how_it_works.md into docs/images, the same bytes each time.

python -m docs.pictures [RUN/step_cost.json]

Numbers are those of docs/numbers.json; a step_cost.json gives other prices of a call.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib import figure, patches

HERE = Path(__file__).resolve().parent
# Okabe and Ito's colours; in grey they are dark, middle and light.
DARK, MIDDLE, LIGHT, RED = '#0072B2', '#009E73', '#E69F00', '#D55E00'
P, Q = (0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4)
TOKENS = 'a', 'b', 'c', 'd'
ROUNDS = (
  (3, 3),
  (3, 0),
  (3, 2),
  (3, 1),
  (0, 0),
)  # (drafted, accepted), as in glossary.md
RC = {
  'axes.labelsize': 9,
  'axes.spines.right': False,
  'axes.spines.top': False,
  'axes.titlesize': 9,
  'font.size': 9,
  'hatch.linewidth': 0.6,
  'legend.fontsize': 9,
  'legend.frameon': False,
  'savefig.dpi': 130,
  'xtick.labelsize': 9,
  'ytick.labelsize': 9,
}


def main(argv: Sequence[str]) -> None:
  """Draws all pictures."""
  numbers = json.loads((HERE / 'numbers.json').read_text())
  prices = dict(zip(numbers['step_cost']['tokens'], numbers['step_cost']['ratio']))
  if argv:
    prices = measured(Path(argv[0]))
  with matplotlib.rc_context(RC):
    drawn = {
      'price_of_a_call': price_of_a_call(prices),
      'one_round': one_round(),
      'where_time_goes': where_time_goes(numbers['lookup']),
      'timeline': timeline(prices),
    }
    (HERE / 'images').mkdir(exist_ok=True)
    for name, picture in drawn.items():
      picture.savefig(HERE / 'images' / f'{name}.png', metadata={'Software': None})


def measured(path: Path) -> dict[int, float]:
  """{tokens: price} of the first place of a step_cost.json, one token's being 1."""
  rows = json.loads(path.read_text())['rows']
  place = lambda row: (row['used'], row['slots'], row['batch'])
  rows = [row for row in rows if place(row) == place(rows[0])]
  return {row['window']: row['ratio_to_one'] for row in rows}


def price_of_a_call(prices: Mapping[int, float]) -> figure.Figure:
  """One call that scores T tokens against T calls that score one."""
  picture = figure.Figure(figsize=(5.4, 3.2), layout='constrained')
  axes = picture.subplots()
  tokens, price = list(prices), list(prices.values())
  axes.fill_between(tokens, price, tokens, color='0.93')
  axes.plot(tokens, tokens, color=RED, linestyle='--')
  axes.plot(tokens, price, color=DARK, marker='o', markersize=4)
  axes.set_xscale('log', base=2)
  axes.set_yscale('log', base=2)
  axes.set_xticks([1, 2, 4, 8, 16, 32], ['1', '2', '4', '8', '16', '32'])
  axes.set_yticks([1, 2, 4, 8, 16, 32], ['1', '2', '4', '8', '16', '32'])
  axes.set_xlabel('tokens scored, T')
  axes.set_ylabel('price, in one-token calls')
  axes.text(7.2, 10.5, 'T calls of one token', color=RED, ha='right')
  axes.text(16, 1.55, 'one call of T tokens', color=DARK, ha='center')
  axes.text(16, 5.2, 'what right drafts save', color='0.3', ha='center')
  return picture


def one_round() -> figure.Figure:
  """q and p as bars: what both share is accepted, what q has too much moves to p."""
  both = [min(p, q) for p, q in zip(P, Q)]
  picture = figure.Figure(figsize=(6.4, 3.0), layout='constrained')
  left, right = picture.subplots(1, 2, sharey=True)
  kept = dict(color=DARK, edgecolor='black', linewidth=0.6)
  rejected = dict(color='white', edgecolor=RED, hatch='////', linewidth=0.8)
  moved = dict(color=LIGHT, edgecolor='black', linewidth=0.6)
  for axes, law, look, name in (
    (left, Q, rejected, 'rejected'),
    (right, P, moved, 'residual'),
  ):
    axes.bar(TOKENS, both, **kept, label=f'accepted: {sum(both):.1f}')
    extra = {t: (low, x - low) for t, low, x in zip(TOKENS, both, law) if x > low}
    bottom, rest = zip(*extra.values())
    label = f'{name}: {sum(rest):.1f}'
    axes.bar(list(extra), rest, bottom=bottom, **look, label=label)
    for token, x in zip(TOKENS, law):
      axes.text(token, x + 0.01, f'{x:.1f}', ha='center')
    axes.set_ylim(0, 0.6)
    axes.legend(loc='upper center', ncols=2, handlelength=1.2, columnspacing=1)
  left.set_title('the draft, drawn from q')
  right.set_title('the output: exactly p')
  left.set_ylabel('probability')
  return picture


def where_time_goes(run: Mapping[str, float]) -> figure.Figure:
  """The price of a round of prompt lookup, split, beside a plain one's."""
  draft, drafted = run['draft_ms'], run['drafted_round_ms']
  plain, undrafted = run['plain_round_ms'], run['undrafted_round_ms']
  rows = [
    ('plain', plain, 0.0, 0.0),
    ('lookup, no match', undrafted - draft, 0.0, draft),
    ('lookup, K = 5', plain, drafted - draft - plain, draft),
  ]
  picture = figure.Figure(figsize=(6.4, 2.2), layout='constrained')
  axes = picture.subplots()
  names = [row[0] for row in rows]
  start = [0.0] * len(rows)
  parts = {
    'target call, one token': dict(color=DARK),
    'five tokens more': dict(color=LIGHT),
    'drafting': dict(color='black'),
  }
  for column, (name, look) in enumerate(parts.items(), 1):
    width = [row[column] for row in rows]
    axes.barh(names, width, left=start, height=0.6, label=name, **look)
    start = [a + b for a, b in zip(start, width)]
  for row, end in enumerate(start):
    axes.text(end + 0.6, row, f'{end:.1f} ms', va='center')
  axes.invert_yaxis()
  axes.set_xlim(0, 60)
  axes.set_xlabel('milliseconds a round')
  picture.legend(loc='outside upper center', ncols=3, handlelength=1.2)
  return picture


def timeline(prices: Mapping[int, float]) -> figure.Figure:
  """Eleven tokens, one call each, and in five rounds of up to three drafted tokens."""
  spent = [prices[drafted + 1] for drafted, _ in ROUNDS]
  emitted = [accepted + 1 for _, accepted in ROUNDS]
  total = sum(emitted)
  picture = figure.Figure(figsize=(6.8, 1.9), layout='constrained')
  axes = picture.subplots()
  for index in range(total):
    _round(axes, index, 1.0, 1, 1)
  start = 0.0
  for price, count in zip(spent, emitted):
    _round(axes, start, price, 0, count)
    start += price
  axes.text(start + 0.15, 0, f'{total} tokens after {start:.2f}', va='center')
  axes.set_yticks([1, 0], ['plain', 'speculative'])
  axes.set_xticks(range(0, total + 1, 2))
  axes.set_xlim(0, total + 0.1)
  axes.set_ylim(-0.5, 1.5)
  axes.set_xlabel('time, in one-token target calls')
  labels = [
    patches.Patch(color=DARK, label="the target's own token"),
    patches.Patch(color=LIGHT, label='accepted draft'),
  ]
  picture.legend(handles=labels, loc='outside upper center', ncols=2, handlelength=1.2)
  return picture


def _round(axes, start: float, width: float, row: int, count: int) -> None:
  """A frame for the call, and in it a square for each token it gives."""
  frame = patches.Rectangle((start, row - 0.36), width, 0.72, fill=False, linewidth=0.8)
  axes.add_patch(frame)
  for index in range(count):
    own = index == count - 1
    x = start + width * (index + 0.5) / count
    square = patches.Rectangle(
      (x - 0.12, row - 0.2), 0.24, 0.4, color=DARK if own else LIGHT
    )
    axes.add_patch(square)


if __name__ == '__main__':
  main(sys.argv[1:])
