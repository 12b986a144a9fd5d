r"""SB-120: 20 prompts of each Spec-Bench task, prompt lookup against plain decoding.

Spec-Bench: https://arxiv.org/abs/2401.07851, first turns only. Even question ids are
the test split, odd ones dev: choose on dev, read test once.

python -m experiments.main --config=configs/experiments/spec_bench.py --workdir=DIR \
  --config.prompts=PATH/spec_bench.jsonl [--config.split=dev --config.num_prompts=60]

MEASURED: ...
"""

from configs import common


def get_config():
  c = common.compare()
  c.num_prompts = 120
  c.methods.baseline_again = dict(drafter=dict(name='autoregressive'))
  c.methods.prompt_lookup = dict(
    drafter=dict(name='prompt_lookup', num_draft=5, max_ngram=3, min_ngram=2),
  )
  return c
