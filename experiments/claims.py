"""What a finished comparison says of itself, read and checked without the target.

Every method, prompt, repeat and turn of the config must stand in results and outputs
once; a text must end where it may; seeds, token counts and the summary must be those
that follow from the config and the rows.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments import measure, methods, questions, records, resume, summarize
from experiments.questions import Prompt
from specjax import stats
from specjax.model import Model

RECOMPUTED = 'speedup', 'tokens_per_second', 'mean_accepted_length', 'acceptance_rate'


@dataclasses.dataclass(frozen=True)
class Row:
  """One output of a run, with what is needed to read it again."""

  method: str
  prompt_id: int
  prompt: list[int]
  tokens: list[int]
  seed: int
  temperature: float
  rule: str  # greedy, gumbel or support


def read(run: Path, model: Model, config: Mapping) -> list[Row]:
  """Outputs of the lossless methods; equal texts of repeats at temperature 0 once.

  Raises:
    ValueError: something is missing, doubled or contradicts the rest.
  """
  about = json.loads((run / 'methods.json').read_text())
  _check_methods(about, config)
  asked = _asked(config)
  results, outputs = (
    _by_key(run / f'{name}.jsonl', about, asked, config['repeats'])
    for name in ('results', 'outputs')
  )
  _check_rows(results, outputs, asked, model, config)
  _check_summary(run, about, list(results.values()))
  rows = {}
  for (name, prompt_id, repeat, turn), result in results.items():
    method, tokens = about[name], outputs[name, prompt_id, repeat, turn]['tokens']
    earlier = [
      outputs[method['against'], prompt_id, repeat, t]['tokens'] for t in range(1, turn)
    ]
    if method['lossless']:
      row = Row(
        method=name,
        prompt_id=prompt_id,
        prompt=questions.token_ids(model, asked[prompt_id].turns[:turn], earlier),
        tokens=tokens,
        seed=result['seed'] if method['temperature'] else 0,
        temperature=method['temperature'],
        rule=_rule(method),
      )
      rows[name, turn, prompt_id, row.seed, tuple(tokens)] = row
  return list(rows.values())


def _check_methods(about: Mapping, config: Mapping) -> None:
  chosen = methods.choose(config['methods'], config['only'], config['temperature'])
  if list(about) != list(chosen):
    raise ValueError(f'methods.json holds {list(about)}, the config {list(chosen)}')
  for name, method in about.items():
    lossless = methods.verifier(method['verifier']).lossless
    if method['lossless'] != lossless:
      raise ValueError(f'{name} is called lossless={method["lossless"]}: {lossless}')


def _asked(config: Mapping) -> dict[int, Prompt]:
  """The prompts of the run, by id."""
  prompts = questions.load(config['prompts'])
  chosen = questions.select(prompts, config['num_prompts'], config['split'])
  turns = config['turns'] or None
  return {p.id: dataclasses.replace(p, turns=p.turns[:turns]) for p in chosen}


def _by_key(file: Path, about: Mapping, asked: Mapping[int, Prompt], repeats: int):
  """{(method, prompt id, repeat, turn): row}, each of them once."""
  rows = resume.read(file)
  found = {records.key(row): row for row in rows}
  wanted = {
    (name, prompt_id, repeat, turn)
    for name in about
    for prompt_id, prompt in asked.items()
    for repeat in range(repeats)
    for turn in range(1, len(prompt.turns) + 1)
  }
  if len(rows) != len(found) or found.keys() != wanted:
    off = sorted(wanted ^ found.keys())[:3] or 'some twice'
    raise ValueError(
      f'{file} holds {len(rows)} rows, {len(wanted)} are asked for (method, prompt, '
      f'repeat, turn); these are not in both: {off}'
    )
  return found


def _check_rows(results, outputs, asked, model: Model, config: Mapping) -> None:
  indices = [prompt.index for prompt in asked.values()]
  turns = max(len(prompt.turns) for prompt in asked.values())
  table = measure.seeds(config['seed'], indices, config['repeats'], turns)
  seeds = dict(zip(asked, table))
  for key, result in results.items():
    _, prompt_id, repeat, turn = key
    tokens = outputs[key]['tokens']
    if stats.tokens_sha256(tokens) != result['tokens_sha256']:
      raise ValueError(
        f'outputs.jsonl does not hold the tokens of results.jsonl: {key}'
      )
    if result['new_tokens'] != len(tokens):
      raise ValueError(f'{key} has {len(tokens)} tokens, not {result["new_tokens"]}')
    if result['seed'] != seeds[prompt_id][repeat][turn - 1]:
      raise ValueError(f'{key} has seed {result["seed"]}, not the one of the config')
    if not _ends_well(tokens, model.tokenizer.stop_ids, config['max_new_tokens']):
      raise ValueError(
        f'{key} ends after {len(tokens)} tokens: neither with its first stop token nor '
        f'at max_new_tokens = {config["max_new_tokens"]}'
      )


def _ends_well(tokens: Sequence[int], stop_ids: Sequence[int], most: int) -> bool:
  stops = np.flatnonzero(np.isin(tokens, stop_ids))
  return len(tokens) == (int(stops[0]) + 1 if stops.size else most)


def _check_summary(run: Path, about: Mapping, results: list[dict]) -> None:
  claimed = json.loads((run / 'summary.json').read_text())['rows']
  true = summarize.summarize(about, results, resume.read(run / 'phases.jsonl'))
  for ours, theirs in zip(true, claimed, strict=True):
    for field in RECOMPUTED:
      pair = [
        np.nan if row.get(field) is None else row[field] for row in (ours, theirs)
      ]
      if not np.allclose(pair[:1], pair[1:], rtol=1e-9, equal_nan=True):
        where = f'{theirs["method"]}, {theirs["category"]}'
        raise ValueError(
          f'summary.json, {where}: {field} is {pair[1]}, rows: {pair[0]}'
        )


def _rule(method: Mapping) -> str:
  if method['temperature'] == 0:
    return 'greedy'
  shared = methods.verifier(method['verifier']).shared_noise
  return 'gumbel' if shared else 'support'
