r"""What temperature does to speculation: prompt lookup at T = 0, 0.5 and 1.

Gumbel coupling (https://arxiv.org/abs/2408.07978) gives the text of plain sampling with
the same seed; rejection (https://arxiv.org/abs/2211.17192) accepts more and gives other
text of the same law. At T = 0 both are greedy. Each repeat has a seed of its own.
plots/temperature.pdf shows tau and speed-up against T.

python -m experiments.main --config=configs/experiments/temperature.py --workdir=DIR

35 minutes on 2 idle CPU cores, estimated.
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
