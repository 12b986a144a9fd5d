"""Methods side by side: one engine, one target, the same prompts and seeds.

For each batch of prompts and each repeat all methods run once, in an order drawn anew:
what the machine does meanwhile hits all of them alike. statistics.md has the rules. A
run that was killed goes on where it was: start it once more with the same --workdir.

Files: `methods.json`; `results.jsonl`, a row per method, prompt and repeat, with the
tokens in `outputs.jsonl`; `phases.jsonl`, times of single rounds; `metrics.jsonl`, how
far the run is. `summary.json`, tables and plots/ follow from all but the last.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import rich.console

import specjax
from experiments import (
  contamination,
  figures,
  measure,
  methods,
  near_ties,
  plan,
  progress,
  questions,
  records,
  resume,
  rundir,
  summarize,
  tables,
)
from experiments.measure import Batch
from experiments.methods import Method
from experiments.plan import Answers, Group, Plan
from experiments.questions import Prompt
from specjax.drafters.oracle import Oracle
from specjax.model import Model

WARM_UP = 4  # tokens, of prompt and of output


def run(config, workdir: Path) -> None:
  """Loads what the config names, compares, and shows the table.

  Raises:
    ValueError, FileNotFoundError: something in the config does not fit.
  """
  prompts = questions.load(config.prompts)
  prompts = questions.select(prompts, config.num_prompts, config.split)
  if config.trained_on:
    allowed = config.allow_contamination
    print(contamination.check(prompts, config.trained_on, allowed))
  compare(specjax.load(config.target), prompts, config, workdir)


def compare(
  model: Model, prompts: Sequence[Prompt], config, workdir: Path
) -> list[dict]:
  """Runs a comparison on a loaded target and returns the rows of summary.json."""
  console = rich.console.Console()
  todo = plan.make(model, prompts, config)
  about = {
    method.name: records.method(method, todo, warmed_up(todo, method))
    for method in progress.track(todo.methods, 'compile', console)
  }
  about |= resume.stored(workdir / 'methods.json')
  rundir.write_json(workdir / 'methods.json', about)
  console.print(expected(todo, about), highlight=False)
  for method in todo.methods if config.profile else ():
    measure.profile(*short(todo), method, workdir / 'profile' / method.name)
  rows = decode_all(todo, about, workdir, console)
  phases = time_rounds(todo, workdir, console)
  summary = summarize.summarize(about, rows, phases)
  near_tie = near_ties.measure(todo, answers(workdir), config.floor_positions)
  if near_tie:
    console.print(near_ties.note(near_tie), highlight=False)
  rundir.write_json(workdir / 'summary.json', {'near_tie': near_tie, 'rows': summary})
  tables.write(workdir, model.label, about, summary)
  tables.show(console, model.label, about, summary)
  figures.write(workdir, about, summary, rows)
  return summary


def expected(todo: Plan, about: dict) -> str:
  """How long the run takes if every answer is long and no draft is right.

  By the price of a round on a short text; prefill and timed rounds come on top.
  """
  rounds = len(todo.groups()) * todo.bench.max_new_tokens
  seconds = rounds * sum(method['round_s'] for method in about.values())
  return f'Decoding takes about {seconds:.0f} s if no draft is right.'


def warmed_up(todo: Plan, method: Method) -> measure.Warm:
  """Compiles a method on a few tokens."""
  bench, batch = short(todo)
  return measure.warm_up(bench, method, batch, with_rounds=todo.phase_prompts > 0)


def short(todo: Plan) -> tuple[measure.Bench, Batch]:
  """A bench for a few new tokens, and a batch of the run's size with short prompts."""
  bench = dataclasses.replace(todo.bench, max_new_tokens=WARM_UP)
  size = len(todo.batches[0])
  prompt = todo.batch(Group(todo.batches[0][:1], 0, 1), '', {}).prompts[0]
  return bench, Batch([prompt[:WARM_UP]] * size, [0] * size)


def decode_all(todo: Plan, about: dict, workdir: Path, console) -> list[dict]:
  """The comparison itself; rows are on disk as soon as they are there."""
  groups, began = todo.groups(), time.perf_counter()
  files = [workdir / name for name in ('results.jsonl', 'outputs.jsonl')]
  names = [method.name for method in todo.methods]
  keys = [
    [(name, prompt.id, repeat, turn) for name in names for prompt in prompts]
    for prompts, repeat, turn in groups
  ]
  left = resume.left(files, groups, keys)
  resume.mend(workdir / 'metrics.jsonl')
  known = answers(workdir)
  for number, group in enumerate(
    progress.track(left, 'decode', console), len(groups) - len(left) + 1
  ):
    results = each_method(measure.run, todo, group, known)
    rundir.append_lines(files[0], records.results(todo, about, group, results))
    outputs = records.outputs(group, results)
    rundir.append_lines(files[1], outputs)
    known |= {records.key(row): row['tokens'] for row in outputs}
    elapsed = round(time.perf_counter() - began, 3)
    metrics = {'groups_done': number, 'groups': len(groups), 'elapsed_s': elapsed}
    rundir.append_lines(workdir / 'metrics.jsonl', [metrics])
  return resume.read(files[0])


def answers(workdir: Path) -> dict:
  """What is written so far, by method, prompt id, repeat and turn."""
  rows = resume.read(workdir / 'outputs.jsonl')
  return {records.key(row): row['tokens'] for row in rows}


def time_rounds(todo: Plan, workdir: Path, console) -> list[dict]:
  """Some prompts once more, round by round."""
  groups, file = todo.phase_groups(), workdir / 'phases.jsonl'
  names = [method.name for method in todo.methods]
  keys = [
    [(name, tuple(p.id for p in prompts), repeat, turn) for name in names]
    for prompts, repeat, turn in groups
  ]
  left = resume.left([file], groups, keys)
  for group in progress.track(left, 'time rounds', console):
    results = each_method(measure.rounds, todo, group, {})
    rundir.append_lines(file, records.phases(group, results))
  return resume.read(file)


def each_method(action: Callable, todo: Plan, group: Group, known: Answers) -> dict:
  """{name: action's result} of all methods on a group, in the order they ran."""
  rng = np.random.default_rng(
    [todo.seed, group.prompts[0].index, group.repeat, group.turn]
  )
  done: dict = {}
  for method in in_order(todo.methods, rng):
    baseline = methods.baseline_of(method, todo.methods).name
    batch = todo.batch(group, baseline, known)
    told = done[baseline].text if isinstance(method.drafter, Oracle) else None
    done[method.name] = action(todo.bench, method, batch, told)
  return done


def in_order(todo: Sequence[Method], rng: np.random.Generator) -> list[Method]:
  """A random order; then each oracle goes anywhere behind the text that it knows."""
  order = [todo[i] for i in rng.permutation(len(todo))]
  for method in [m for m in order if isinstance(m.drafter, Oracle)]:
    order.remove(method)
    known = order.index(methods.baseline_of(method, todo))
    order.insert(int(rng.integers(known + 1, len(order) + 1)), method)
  return order
