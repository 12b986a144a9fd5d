r"""How often each node of a wide tree is accepted on dev: what tree_choice.py needs.

`wide` has Medusa's 63 nodes, and on the way along the likeliest ones three siblings a
depth, down to 12. Its speed does not matter.

python -m experiments.main --config=configs/experiments/tree_dev.py --workdir=DIR
"""

from configs import common

DEPTH = 12
DEEPER = [(0,) * depth + (rank,) for depth in range(DEPTH) for rank in range(3)]
WIDE = tuple(dict.fromkeys([*common.MEDUSA_63, *DEEPER]))


def get_config():
  c = common.compare()
  c.split = 'dev'
  c.max_new_tokens = 64
  c.repeats = 1
  c.methods.wide = dict(
    drafter=dict(
      name='lookup_tree', num_draft=DEPTH, tree=WIDE, max_ngram=3, min_ngram=2
    )
  )
  return c
