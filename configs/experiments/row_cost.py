"""The price of scoring 1 to 64 rows at one place: what tree_choice.py needs.

python -m experiments.main --config=configs/experiments/row_cost.py --workdir=DIR

3 minutes on 2 idle CPU cores with repeats=7. Measured there: 2 to 5 rows
1.3 to 1.36 of one, 9 rows 1.55, 17 rows 2.19, 32 rows 3.02, 64 rows 5.63.
"""

import ml_collections

WINDOWS = (*range(1, 18), 20, 24, 28, 32, 40, 48, 64)


def get_config():
  c = ml_collections.ConfigDict()
  c.experiment = 'step_cost'
  c.target = 'smollm2-135m'
  c.repeats = 9
  # Target calls in one compiled loop.
  c.steps = 8
  # (window, used context, buffer slots, batch)
  c.cases = tuple((window, 200, 512, 1) for window in WINDOWS)
  return c
