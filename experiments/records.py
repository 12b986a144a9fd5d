"""What is written down of a comparison: the rows of its JSONL files."""

import dataclasses
from collections.abc import Mapping

from experiments import methods
from experiments.measure import Result, Rounds, Warm
from experiments.methods import Method
from experiments.plan import Group, Plan
from specjax import stats


def method(ours: Method, todo: Plan, warm: Warm) -> dict:
  """An entry of methods.json: what a reader of the results must know of a method.

  `same_text`: the output equals its baseline's token by token, up to near-ties.
  """
  baseline = methods.baseline_of(ours, todo.methods)
  coupled = ours.verifier.shared_noise and baseline.verifier.shared_noise
  return {
    'against': baseline.name,
    'drafter': ours.settings['drafter'],
    'verifier': ours.settings['verifier'],
    'lossless': ours.verifier.lossless,
    'same_text': ours.verifier.lossless and (ours.temperature == 0 or coupled),
    'temperature': ours.temperature,
    'batch_size': len(todo.batches[0]),
    'num_draft': ours.drafter.num_draft,
    'num_nodes': ours.drafter.num_nodes,
    **dataclasses.asdict(warm),
  }


def results(
  todo: Plan,
  about: Mapping[str, dict],
  group: Group,
  done: Mapping[str, Result],
) -> list[dict]:
  """Rows of results.jsonl: a group's methods, in the order they ran, by prompt."""
  rows = []
  prompts, repeat, turn = group
  for order, (name, result) in enumerate(done.items()):
    for row, prompt in enumerate(prompts):
      base = done[about[name]['against']].outputs[row]
      rows.append(
        {
          'method': name,
          'drafter': about[name]['drafter']['name'],
          'verifier': about[name]['verifier']['name'],
          'draft_sampling': about[name]['draft_sampling'],
          'prompt_id': prompt.id,
          'category': prompt.category,
          'task': prompt.task,
          'split': prompt.split,
          'turn': turn,
          'repeat': repeat,
          'seed': todo.seeds[prompt.index][repeat][turn - 1],
          'order': order,
          'batch': prompts[0].index,  # rows with the same one share their times
          'temperature': about[name]['temperature'],
          'batch_size': len(prompts),
          'num_draft': about[name]['num_draft'],
          'prompt_tokens': len(result.prompts[row]),
          'prefill_s': result.prefill_s,
          'decode_s': result.decode_s,
          **_counts(result, row),
          **_traced(result, row),
          **_text(result.outputs[row], base if about[name]['same_text'] else None),
          'truncated': result.outputs[row][-1] not in todo.stop_ids,
          'config_hash': todo.config_hash,
        }
      )
  return rows


def outputs(group: Group, done: Mapping[str, Result]) -> list[dict]:
  """Rows of outputs.jsonl: what was written, so that it can be verified later."""
  prompts, repeat, turn = group
  named = lambda name, prompt: dict(
    method=name, prompt_id=prompt.id, repeat=repeat, turn=turn
  )
  return [
    named(name, prompt) | {'tokens': tokens}
    for name, result in done.items()
    for prompt, tokens in zip(prompts, result.outputs)
  ]


def key(row: Mapping) -> tuple:
  """What names a row of results or outputs: method, prompt id, repeat, turn.

  And a row of phases: the prompts' ids in place of one.
  """
  prompt = row['prompt_id'] if 'prompt_id' in row else tuple(row['prompt_ids'])
  return row['method'], prompt, row['repeat'], row['turn']


def phases(group: Group, done: Mapping[str, Rounds]) -> list[dict]:
  """Rows of phases.jsonl: a group's methods, each round timed."""
  return [
    {
      'method': name,
      'prompt_ids': [prompt.id for prompt in group.prompts],
      'repeat': group.repeat,
      'turn': group.turn,
      'draft_s': rounds.draft_s,
      'round_s': rounds.round_s,
      'round_drafted': rounds.round_drafted,
      'overlap': rounds.overlap,
    }
    for name, rounds in done.items()
  ]


def _counts(result: Result, row: int) -> dict:
  """Emitted tokens only. `draft_calls` are rounds that proposed something.

  `node_accepted` has the rounds that accepted each node of a tree.
  """
  counts = result.stats
  offered = counts.offered[row].tolist()
  nodes = {}
  if counts.node_accepted is not None:
    nodes['node_accepted'] = counts.node_accepted[row].tolist()
  return {
    'new_tokens': len(result.outputs[row]),
    'target_calls': int(counts.target_calls[row]),
    'draft_calls': offered[0] if offered else 0,
    'drafted': int(counts.drafted[row]),
    'accepted': int(counts.accepted[row]),
    'accepted_histogram': counts.histogram[row].tolist(),
    'offered': offered,
    **nodes,
  }


def _traced(result: Result, row: int) -> dict:
  trace = result.traces[row]
  calls, emitted = stats.by_position(trace)
  return {
    'accepted_from': stats.accepted_from(
      result.prompts[row], result.outputs[row], trace
    ),
    'calls_by_position': calls,
    'tokens_by_position': emitted,
  }


def _text(tokens: list[int], base: list[int] | None) -> dict:
  """`base` is the text that the output should equal, where there is one."""
  differs = None if base is None else stats.first_difference(tokens, base)
  return {
    'identical_to_baseline': None if base is None else differs is None,
    'first_difference': differs,
    'repeat8': stats.repeat_share(tokens),
    'loop_onset': stats.loop_onset(tokens),
    'tokens_sha256': stats.tokens_sha256(tokens),
  }
