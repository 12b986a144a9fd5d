"""Runs made by hand, and figures of them."""

import zlib

import numpy as np

from configs.experiments import draft_length, temperature
from experiments import methods
from experiments.plots import acceptance, speedups, sweeps
from specjax.testing.table import table_model

TASKS = 'multi-turn', 'translation', 'summarization', 'qa', 'math_reasoning', 'rag'
LONG = [
  'prompt_lookup_max_ngram_3_min_ngram_2_gumbel',
  'self_speculative_24_of_30_layers_greedy',
  'draft_model_smollm2_135m_instruct_block',
  'eagle_three_training_seeds_joint_loss_a',
  'eagle_three_training_seeds_joint_loss_b',
  'medusa_four_heads_frozen_backbone',
  'hydra_sequential_heads_temperature_one',
  'oracle_all_right',
]


def method(num_draft: int = 0, temperature: float = 0.0, **fields) -> dict:
  """An entry of methods.json; a drafter if it drafts."""
  plain = num_draft == 0
  drafter = dict(name='autoregressive') if plain else dict(name='prompt_lookup')
  verifier = dict(name='greedy' if temperature == 0 else 'gumbel')
  own = dict(against=f'baseline_t{temperature:g}', num_draft=num_draft)
  own |= dict(drafter=drafter if plain else drafter | dict(num_draft=num_draft))
  return own | dict(verifier=verifier, temperature=temperature) | fields


def baselines(*temperatures: float) -> dict[str, dict]:
  return {f'baseline_t{t:g}': method(temperature=t) for t in temperatures} | {
    'baseline_again': method()
  }


def summarized(about: dict[str, dict], tasks=TASKS, intervals: bool = True):
  """Rows of summary.json with made-up numbers, the same each time."""
  return [
    row(name, about[name], category, intervals)
    for category in ('all', *tasks)
    for name in about
  ]


def row(name: str, method: dict, category: str, intervals: bool) -> dict:
  rng = np.random.default_rng(zlib.crc32(f'{name} {category}'.encode()))
  depth = method['num_draft']
  speedup = 1.03 if name == 'baseline_again' else 1 + rng.normal(0.4, 0.3) * (depth > 0)
  tau = 1 + (depth > 0) * rng.uniform(0.2, 1)
  around = lambda x, share: [x * (1 - share), x * (1 + share)] if intervals else None
  return dict(
    method=name,
    category=category,
    speedup=speedup,
    speedup_ci95=around(speedup, 0.08),
    mean_accepted_length=tau,
    mean_accepted_length_ci95=around(tau, 0.05),
    per_position_acceptance=(rng.uniform(0.5, 0.9) ** np.arange(1, depth + 1)).tolist(),
  )


def results(about: dict[str, dict]) -> list[dict]:
  """Two rows of results.jsonl a method: K + 1, K, ... rounds and one of each more."""
  return [
    dict(method=name, accepted_histogram=[rounds + more for rounds in range(k, 0, -1)])
    for name, k in ((name, method['num_draft'] + 1) for name, method in about.items())
    for more in (0, 1)
  ]


def of_config(config) -> dict[str, dict]:
  """methods.json of a config, as far as figures read it."""
  known = methods.parse(config.methods.to_dict(), config.temperature, table_model(50))
  return {
    name: dict(
      against=methods.baseline_of(method, known.values()).name,
      num_draft=method.drafter.num_draft,
      temperature=method.temperature,
      drafter=method.settings['drafter'],
      verifier=method.settings['verifier'],
    )
    for name, method in known.items()
  }


LENGTHS, TEMPERATURES = (
  of_config(module.get_config()) for module in (draft_length, temperature)
)
EIGHT = baselines(0) | {
  name: method(3 + i % 3, drafter=dict(name=f'drafter_{i // 2}'))
  for i, name in enumerate(LONG)
}
TWO = baselines(0) | {name: method(4) for name in ('lookup', 'oracle')}
COSTS = [
  dict(window=t, used=200, slots=512, batch=b, ms_median=20.0 + t, ratio_to_one=1 + t)
  for b in (1, 3, 8)
  for t in (1, 2, 3, 4, 8, 9, 16, 32)
]


def drawn(about: dict, tasks=TASKS) -> dict:
  """All figures of a comparison."""
  summary = summarized(about, tasks)
  return {
    'tasks': speedups.by_task(about, summary),
    'lengths': sweeps.sweep(about, summary, 'num_draft'),
    'temperatures': sweeps.sweep(about, summary, 'temperature'),
    'depths': acceptance.by_depth(about, summary),
    'rounds': acceptance.per_round(about, summary, results(about)),
  }
