"""The price of a tree: its ancestor mask, and keeping the accepted path.

`branches` has 16 nodes, four chains of four; `medusa` is Medusa's (arXiv 2401.10774).

python -m experiments.main --config=configs/experiments/tree_cost.py --workdir=DIR

4 minutes on 2 idle CPU cores with repeats=9. Measured there: the tree 1.00 to 1.01 of
the chain, one branch 1.02 to 1.04, keeping the path at most 0.3% of a call.
"""

import ml_collections

from configs import common


def get_config():
  c = ml_collections.ConfigDict()
  c.experiment = 'tree_cost'
  c.target = 'smollm2-135m'
  c.repeats = 15
  # Target calls in one compiled loop.
  c.steps = 8
  c.trees = dict(branches=common.widths(4, 1, 1, 1), medusa=common.MEDUSA_63)
  # (used context, buffer slots, batch)
  c.places = ((200, 512, 1), (700, 1024, 1))
  return c
