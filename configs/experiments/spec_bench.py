r"""SB-120: 20 prompts of each Spec-Bench task, prompt lookup against plain decoding.

Spec-Bench: https://arxiv.org/abs/2401.07851, greedy and at T = 1 (gumbel coupling,
https://arxiv.org/abs/2408.07978). Even question ids are the test split, odd ones dev:
choose on dev, read test once.

python -m experiments.main --config=configs/experiments/spec_bench.py --workdir=DIR \
  --config.prompts=PATH/spec_bench.jsonl [--config.split=dev --config.num_prompts=60]

80 minutes on 2 idle CPU cores, estimated. Measured on busy ones, with num_prompts=12,
max_new_tokens=48 and repeats=1 (3 minutes): A/A 1.011; prompt_lookup 1.04x, tau 1.31,
33% accepted, all outputs identical.
"""

from configs import common


def get_config():
  c = common.compare()
  c.num_prompts = 120
  plain = dict(name='autoregressive')
  lookup = dict(name='prompt_lookup', num_draft=5, max_ngram=3, min_ngram=2)
  c.methods.baseline_again = dict(drafter=plain)
  c.methods.prompt_lookup = dict(drafter=lookup)
  c.methods.baseline_t1 = dict(drafter=plain, temperature=1.0)
  c.methods.prompt_lookup_t1 = dict(drafter=lookup, temperature=1.0)
  return c
