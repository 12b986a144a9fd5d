"""Prompt lookup against the baseline: every output the same, up to near-ties."""

import ml_collections


def get_config():
  c = ml_collections.ConfigDict()
  c.experiment = 'identity'
  c.target = 'smollm2-135m'
  c.prompts = 'experiments/prompts/specjax_60.jsonl'
  c.num_prompts = 0  # all
  c.max_new_tokens = 64
  c.batch_size = 8
  c.drafter = dict(num_draft=5, max_ngram=3, min_ngram=2)
  c.floor_positions = 1000  # positions that eps is measured over, at least
  return c
