"""The fields that configs share, with their defaults."""

import itertools

import ml_collections


def compare() -> ml_collections.ConfigDict:
  """Fields of `experiments.compare`, locked; methods are free to be added.

  A method is `dict(drafter=dict(name=..., ...), verifier=dict(name=..., ...))`: what
  stands beside `name` goes to the dataclass as it is. It may have a `temperature` of
  its own. Without a `verifier` it gets greedy at temperature 0, gumbel above.
  """
  c = ml_collections.ConfigDict()
  # The module in experiments/ that runs this config.
  c.experiment = 'compare'
  # A preset, a GGUF file, a Hugging Face directory or a hub id.
  c.target = 'smollm2-135m'
  # A JSONL file in Spec-Bench's format.
  c.prompts = 'experiments/prompts/specjax_60.jsonl'
  # all, dev (odd question ids: choose on these) or test (even ones: read once).
  c.split = 'all'
  # 0 = all; otherwise spread evenly over the tasks.
  c.num_prompts = 0
  # How many turns of a conversation are asked; 0 = all. A later turn continues the
  # baseline's answers, for every method.
  c.turns = 0
  c.max_new_tokens = 128
  c.temperature = 0.0
  # Filters of the rows above temperature 0, for the baseline too: 0, 1 and 0 are off.
  c.top_k = 0
  c.top_p = 1.0
  c.min_p = 0.0
  c.batch_size = 1
  c.repeats = 3
  c.seed = 0
  # How many prompts are decoded once more to time every round; 0 = none.
  c.phase_prompts = 4
  # Positions on which the near-tie floor is measured at the end; 0 = it is not.
  c.floor_positions = 1000
  # JSON or JSONL files that drafters were trained on: prompts they hold are refused.
  c.trained_on = ()
  c.allow_contamination = False
  # Write a JAX profile of one round of each method to profile/.
  c.profile = False
  # Comma-separated names of methods; '' = all. Their baselines always run.
  c.only = ''
  c.methods = ml_collections.ConfigDict(sort_keys=False)
  c.methods.baseline = dict(drafter=dict(name='autoregressive'))
  c.lock()
  c.methods.unlock()
  return c


def widths(*children):
  """The path list of a tree: every node at depth d has children[d] of them.

  (2, 1) -> ((0,), (1,), (0, 0), (1, 0)), as specjax.trees.from_widths has it.
  """
  ranks = [range(number) for number in children]
  depths = range(1, len(ranks) + 1)
  return tuple(p for depth in depths for p in itertools.product(*ranks[:depth]))


def paths(words):
  """The path list of a tree with ranks up to 9: a word a path, a digit a rank.

  '0 1 00 01' -> ((0,), (1,), (0, 0), (0, 1))
  """
  return tuple(tuple(map(int, word)) for word in words.split())


# Medusa's 63 nodes for Vicuna 7B: https://github.com/FasterDecoding/Medusa,
# medusa_choices.py, mc_sim_7b_63; arXiv 2401.10774, appendix A.
MEDUSA_63 = paths(
  '0 00 1 01 2 000 10 02 3 03 4 04 20 05 001 5 06 6 010 11 7 07 002 30 08 09 8 9 100 '
  '020 12 003 40 21 004 005 0000 011 006 030 50 13 007 008 009 60 040 14 70 012 200 31 '
  '22 80 050 15 101 021 90 060 0001 16 070'
)
