r"""How often each node of a wide tree is accepted on dev: what tree_choice.py needs.

`wide` has Medusa's 63 nodes, and two successors of the likeliest path at each depth,
down to 16: passages that prompt lookup copies are long. Its speed does not matter.

python -m experiments.main --config=configs/experiments/tree_dev.py --workdir=DIR

5 minutes on 2 idle CPU cores, estimated. Measured on busy ones: of the drafts 63% had
their first node accepted, 7% its sibling, and 41% a third node behind the first.
"""

from configs import common

DEPTH = 16
DEEPER = [(0,) * depth + (rank,) for depth in range(DEPTH) for rank in range(2)]
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
