r"""Is everything that ships lossless, and is a drafter or verifier of your own?

Exact laws beside draws of the jitted code: see experiments/audit.py. `:full` has up to
20 times the rows, all tree shapes and all pairs of drafters and verifiers: a night.

python -m experiments.main --config=configs/experiments/audit.py --workdir=DIR
python -m experiments.main --config=configs/experiments/audit.py:full --workdir=DIR
python -m experiments.main --config=configs/experiments/audit.py --workdir=DIR \
  --config.drafter=package.module

4 minutes on two idle CPU cores, estimated: 6 CPU minutes, half of them compiling.
Everything passes but typical acceptance; distances of 0.004 to 0.018 would be noticed.
"""

import ml_collections


def get_config(arg=None):
  if arg not in (None, 'full'):
    raise ValueError(f'audit.py takes nothing, or :full; got {arg!r}')
  c = ml_collections.ConfigDict()
  c.experiment = 'audit'
  # A module of yours, or of ours (a,b: several); '' = all of the lists below.
  c.drafter = ''
  c.verifier = ''
  # Names of experiments/auditing/examples.py, or modules.
  c.drafters = (
    'draft_model',
    'self_speculative',
    'prompt_lookup',
    'tree_distinct',
    'fewer_tokens',
    'oracle',
    'dynamic_tree',
    'tree_independent',
    'lookup_tree',
    'tree_likeliest',
  )
  # Those that meet the same drafter end to end stand beside each other.
  c.verifiers = ('rejection', 'gumbel', 'block', 'traversal', 'typical', 'greedy')
  # Judges each drafter's drafts, round by round.
  c.judge = 'rejection'
  # Of given drafts: names of experiments/auditing/given.py; grown = all of them.
  c.shapes = ('chain', '3-1', 'deep', 'grown')
  # How many verifiers each drafter meets end to end.
  c.partners = 2
  # Of each check, in each part.
  c.rows = dict(verifiers=200_000, drafters=100_000, decoding=200_000)
  c.seed = 0
  if arg == 'full':
    c.shapes = ('chain', '2-1', '2-2', '3-1', 'deep', 'grown')
    c.partners = len(c.verifiers)
    c.rows = dict(verifiers=4_000_000, drafters=500_000, decoding=4_000_000)
  return c
