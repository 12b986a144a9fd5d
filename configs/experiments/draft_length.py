r"""How many tokens to draft: prompt lookup at seven K, greedy.

Prompt lookup: Saxena 2023, https://github.com/apoorvumang/prompt-lookup-decoding. K is
chosen on the dev split (odd question ids). A longer draft is accepted further but costs
more to score, with or without a gain: see step_cost.py. plots/draft_length.pdf shows
tau and speed-up against K.

python -m experiments.main --config=configs/experiments/draft_length.py --workdir=DIR

Measured on 2 idle CPU cores (21 minutes): A/A 1.001; K = 1 2 3 4 5 8 12 give 1.16 1.38
1.51 1.58 1.57 1.62 1.59 and tau 1.39 1.59 1.71 1.80 1.86 1.96 2.02. From 4 on the
intervals, some 0.35 wide, cannot tell them apart.
"""

from configs import common

LENGTHS = 1, 2, 3, 4, 5, 8, 12


def get_config():
  c = common.compare()
  c.split = 'dev'
  c.max_new_tokens = 64
  c.repeats = 2
  plain = dict(name='autoregressive')
  c.methods.baseline_again = dict(drafter=plain)
  for k in LENGTHS:
    c.methods[f'lookup_k{k}'] = dict(
      drafter=dict(name='prompt_lookup', num_draft=k, max_ngram=3, min_ngram=2)
    )
  return c
