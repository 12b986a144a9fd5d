r"""The fastest tree that tree_choice.py found on dev, read once on test.

Prompt lookup with the best chain, the best tree of widths, Medusa's 63 nodes (arXiv
2401.10774) and the fastest tree (arXiv 2402.12374); then tree_choice.py with `test`.

python -m experiments.main --config=configs/experiments/tree_test.py --workdir=DIR

13 minutes on 2 idle CPU cores with num_prompts=20 and repeats=2. Measured there: A/A
1.001; chain 1.30x, tau 1.57; widths 1.29x; medusa 0.60x, tau 1.52; fastest, the same
chain, 1.31x.
"""

from configs import common

# Chosen on dev by tree_choice.py; the fastest tree is a chain.
TREES = dict(
  chain=common.widths(*[1] * 8),
  widths=common.widths(*[1] * 7, 2),
  medusa=common.MEDUSA_63,
  fastest=common.widths(*[1] * 8),
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
