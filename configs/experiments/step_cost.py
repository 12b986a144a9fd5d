"""The price of a target call: windows at one place, then what else may matter.

python -m experiments.main --config=configs/experiments/step_cost.py --workdir=DIR

Two CPU cores: 3 minutes; 25 ms for one token, 1.38x for 5, 1.66x for 8, 3.45x for 32.
"""

import ml_collections

WINDOWS = (1, 2, 3, 4, 5, 6, 8, 9, 16, 17, 32)


def get_config():
  c = ml_collections.ConfigDict()
  c.experiment = 'step_cost'
  c.target = 'smollm2-135m'
  c.repeats = 9
  # Target calls in one compiled loop.
  c.steps = 8
  # (window, used context, buffer slots, batch)
  c.cases = tuple(
    [(window, 200, 512, 1) for window in WINDOWS]
    + [(window, used, 8192, 1) for used in (200, 700, 2000) for window in (1, 6)]
    + [(window, 200, 512, batch) for batch in (3, 8) for window in (1, 2, 6)]
  )
  return c
