r"""The fastest static tree for prompt lookup, as in Sequoia (arXiv 2402.12374).

In order: row_cost.py and tree_dev.py; this with `dev` and `costs`; its trees go into
tree_test.py; after that has run, this once more with `test`, for the table of predicted
and measured tokens/s.

python -m experiments.main --config=configs/experiments/tree_choice.py --workdir=DIR \
  --config.dev=RUN --config.costs=RUN [--config.test=RUN]
"""

import ml_collections

from configs import common


def get_config():
  c = ml_collections.ConfigDict()
  c.experiment = 'tree_choice'
  # A finished run of tree_dev.py, and the method whose tree it is.
  c.dev = ''
  c.method = 'wide'
  # Drafts copy passages, so that a round goes on where the last one ended.
  c.copies = True
  # A finished run of row_cost.py.
  c.costs = ''
  # Trees that are predicted beside the best ones.
  c.trees = dict(medusa=common.MEDUSA_63)
  # A finished run of tree_test.py: its methods are predicted, beside what they reached.
  c.test = ''
  return c
