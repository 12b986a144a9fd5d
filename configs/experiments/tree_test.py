r"""The fastest tree that tree_choice.py found on dev, read once on test.

Prompt lookup with the best chain, the best tree of widths, Medusa's 63 nodes (arXiv
2401.10774) and the fastest tree (arXiv 2402.12374); then tree_choice.py with `test`.

python -m experiments.main --config=configs/experiments/tree_test.py --workdir=DIR
"""

from configs import common

# Chosen on dev by tree_choice.py.
TREES = dict(
  chain=common.widths(1, 1, 1, 1, 1),
  widths=common.widths(2, 1, 1, 1),
  medusa=common.MEDUSA_63,
  fastest=common.paths('0 1 2 00 01 10 000 0000'),
)


def get_config():
  c = common.compare()
  c.split = 'test'
  c.max_new_tokens = 64
  plain = dict(name='autoregressive')
  c.methods.baseline_again = dict(drafter=plain)
  for name, tree in TREES.items():
    c.methods[name] = dict(
      drafter=dict(
        name='lookup_tree',
        num_draft=max(map(len, tree)),
        tree=tree,
        max_ngram=3,
        min_ngram=2,
      )
    )
  return c
