r"""Prompt lookup against the baseline: every output the same, up to near-ties.

python -m experiments.main --config=configs/experiments/identity.py --workdir=DIR \
  --config.prompts=PATH/spec_bench.jsonl

Two CPU cores, Spec-Bench: about 15 minutes; 480 of 480 rows identical, 0 flips in
27,912 tokens, eps 1.2e-4.
"""

import ml_collections


def get_config():
  c = ml_collections.ConfigDict()
  c.experiment = 'identity'
  c.target = 'smollm2-135m'
  # A JSONL file in Spec-Bench's format.
  c.prompts = 'experiments/prompts/specjax_60.jsonl'
  # 0 = all; otherwise spread evenly over the tasks.
  c.num_prompts = 0
  c.max_new_tokens = 64
  c.batch_size = 8
  c.method = dict(
    drafter=dict(name='prompt_lookup', num_draft=5, max_ngram=3, min_ngram=2),
    verifier=dict(name='greedy'),
  )
  # About how many positions eps is measured over.
  c.floor_positions = 1000
  return c
