r"""What temperature does to speculation: prompt lookup at T = 0, 0.5 and 1.

Gumbel coupling (https://arxiv.org/abs/2408.07978) gives the text of plain sampling with
the same seed, rejection (https://arxiv.org/abs/2211.17192) other text of the same law.
Both accept a copied token with its p, so tau differs by chance. At T = 0 both are
greedy. Each repeat has a seed of its own. plots/temperature.pdf shows tau and speed-up
against T.

python -m experiments.main --config=configs/experiments/temperature.py --workdir=DIR

Measured on 2 idle CPU cores (42 minutes): A/A 0.998; T = 0 1.43x [1.16, 1.75], tau
1.69; T = 0.5 gumbel 1.30x [1.13, 1.50], tau 1.49, rejection 1.26x [1.08, 1.47], tau
1.45; T = 1 1.02x [0.99, 1.06], tau 1.09, and 1.00x [0.98, 1.02], tau 1.07.
"""

from configs import common

WARM = dict(t05=0.5, t1=1.0)


def get_config():
  c = common.compare()
  c.num_prompts = 20
  c.max_new_tokens = 64
  c.repeats = 5
  plain = dict(name='autoregressive')
  lookup = dict(name='prompt_lookup', num_draft=5, max_ngram=3, min_ngram=2)
  c.methods.baseline_again = dict(drafter=plain)
  c.methods.lookup_t0 = dict(drafter=lookup)
  for suffix, temperature in WARM.items():
    warm = dict(temperature=temperature)
    for verifier in 'gumbel', 'rejection':
      c.methods[f'lookup_{verifier}_{suffix}'] = dict(
        drafter=lookup, verifier=dict(name=verifier), **warm
      )
    c.methods[f'baseline_{suffix}'] = dict(drafter=plain, **warm)
  return c
