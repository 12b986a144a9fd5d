r"""The first comparison: prompt lookup against plain decoding and against its ceiling.

Prompt lookup: Saxena 2023, https://github.com/apoorvumang/prompt-lookup-decoding; the
gumbel verifier: https://arxiv.org/abs/2408.07978. `baseline_again` is the baseline
under another name: its speed-up is the noise floor. The oracle drafts the baseline's
own text, so no drafter of 5 tokens can be faster on these prompts.

python -m experiments.main --config=configs/experiments/demo.py --workdir=DIR

5 minutes on two CPU cores. Measured there: A/A 1.010; prompt_lookup 1.41x, tau 1.63,
49% accepted; oracle 3.52x, tau 5.68; prompt_lookup_t1 1.07x, tau 1.17, 35% accepted;
all outputs identical to their baselines'.
"""

from configs import common


def get_config():
  c = common.compare()
  c.num_prompts = 20
  c.max_new_tokens = 40
  c.repeats = 1
  c.phase_prompts = 2
  c.floor_positions = 200
  lookup = dict(name='prompt_lookup', num_draft=5, max_ngram=3, min_ngram=2)
  plain = dict(name='autoregressive')
  greedy, gumbel = dict(name='greedy'), dict(name='gumbel')
  c.methods.baseline_again = dict(drafter=plain, verifier=greedy)
  c.methods.prompt_lookup = dict(drafter=lookup, verifier=greedy)
  c.methods.oracle = dict(
    drafter=dict(name='oracle', num_draft=5, rates=(1.0,) * 5), verifier=greedy
  )
  c.methods.baseline_t1 = dict(drafter=plain, verifier=gumbel, temperature=1.0)
  c.methods.prompt_lookup_t1 = dict(drafter=lookup, verifier=gumbel, temperature=1.0)
  return c
