r"""SB-120: 20 prompts of each Spec-Bench task, prompt lookup against plain decoding.

Spec-Bench: https://arxiv.org/abs/2401.07851, greedy and at T = 1 (gumbel coupling,
https://arxiv.org/abs/2408.07978). Even question ids are the test split, odd ones dev:
choose on dev, read test once.

python -m experiments.main --config=configs/experiments/spec_bench.py --workdir=DIR \
  --config.prompts=PATH/spec_bench.jsonl [--config.split=dev --config.num_prompts=60]

Measured on 2 idle CPU cores with split=test, num_prompts=60, max_new_tokens=64 (43
minutes): A/A 1.01; prompt_lookup 1.30x [1.22, 1.38], tau 1.50, 39% accepted;
prompt_lookup_t1 1.01x [0.99, 1.03], tau 1.10; all outputs identical. The whole takes
some two and a half hours, estimated.
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
