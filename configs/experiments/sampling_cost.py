"""The price of sampling: temperature, filters and each verifier, beside greedy rounds.

python -m experiments.main --config=configs/experiments/sampling_cost.py --workdir=DIR

Two CPU cores: 3 minutes; every share below 10% at a vocabulary of 49k.
"""

import ml_collections

WARM = dict(temperature=1.0)
ALL = dict(temperature=1.0, top_k=50, top_p=0.9, min_p=0.02)


def get_config():
  c = ml_collections.ConfigDict()
  c.experiment = 'sampling_cost'
  c.target = 'smollm2-135m'
  c.repeats = 9
  # Rounds in one compiled loop.
  c.steps = 16
  # Tokens scored a round; 1 is plain decoding.
  c.windows = (1, 6)
  # (verifier, settings of a row)
  c.cases = (
    ('gumbel', WARM),
    ('gumbel', dict(temperature=1.0, top_k=50)),
    ('gumbel', dict(temperature=1.0, top_p=0.9)),
    ('gumbel', ALL),
    ('rejection', WARM),
    ('rejection', ALL),
    ('block', WARM),
    ('block', ALL),
  )
  return c
