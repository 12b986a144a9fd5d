"""What sampling costs of a round: the same rounds greedily and with each setting.

A round of window T scores T - 1 drafted tokens, all wrong, and emits one. Rounds run
in one compiled loop through `decoding.decode_round`; all cases take turns in every
repeat, and `share` is the median over repeats of 1 - greedy / sampled time.

  python -m experiments.main --config=configs/experiments/sampling_cost.py --workdir=DIR

Writes sampling_cost.json ({"rows": [...]}) and table.md.
"""

import dataclasses
import functools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rich
import rich.console
from rich import box, table

import specjax
from experiments import methods, progress, rundir
from specjax import decoding, request
from specjax.drafters.autoregressive import Autoregressive
from specjax.drafters.oracle import Oracle
from specjax.model import Model
from specjax.types import Params
from specjax.verifiers.greedy import Greedy

PROMPT_TOKENS = 200
WIDTH = 120  # of table.md


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
  """Rounds of one window, verifier and setting."""

  window: int
  verifier: str
  settings: Mapping[str, Any]  # temperature, top_k, ...; {} is greedy


def run(config, workdir: Path) -> None:
  """Times every window with every verifier and setting of the config."""
  model = specjax.load(config.target)
  cases = [
    Case(window, verifier, dict(settings))
    for window in config.windows
    for verifier, settings in (('greedy', {}), *config.cases)
  ]
  rows = measure(model, cases, config.repeats, config.steps)
  rundir.write_json(workdir / 'sampling_cost.json', {'rows': rows})
  shown = _table(rows, model.label)
  rich.print(shown)
  with rundir.opened(workdir / 'table.md', 'w') as file:
    rich.console.Console(file=file, width=WIDTH).print(shown)


def measure(model: Model, cases: list[Case], repeats: int, steps: int) -> list[dict]:
  """A row a case; the first case of each window is greedy."""
  console = rich.console.Console()
  for case in progress.track(cases, 'compile', console):
    _round_ms(model, case, steps)
  times = np.empty((repeats, len(cases)))
  for repeat in progress.track(range(repeats), 'measure', console):
    order = range(len(cases)) if repeat % 2 == 0 else reversed(range(len(cases)))
    for index in order:  # there and back: a drift favours no case
      times[repeat, index] = _round_ms(model, cases[index], steps)
  rows = []
  for index, case in enumerate(cases):
    greedy = [c.window for c in cases].index(case.window)
    share = 1 - times[:, greedy] / times[:, index]
    rows.append(
      {
        **dataclasses.asdict(case),
        'round_ms': float(np.median(times[:, index])),
        'share': float(np.median(share)),
      }
    )
  return rows


def _round_ms(model: Model, case: Case, steps: int) -> float:
  """Milliseconds of one of `steps` rounds."""
  drafter: Any = Autoregressive()
  if case.window > 1:
    vocab_size = model.target.vocab_size
    drafter = Oracle(case.window - 1, vocab_size, script=(0,))
  verifier = methods.verifier({'name': case.verifier}) if case.settings else Greedy()
  static = model.target, drafter, verifier
  prompt = [1 + i % 50 for i in range(PROMPT_TOKENS)]
  params = Params(model.params, jnp.zeros((1, 512), jnp.int32))
  state = request.start(
    *static, params, [prompt], max_new_tokens=300, max_len=512, **case.settings
  )
  state = jax.block_until_ready(decoding.prefill(*static[:2], params, state))
  began = time.perf_counter()
  jax.block_until_ready(_rounds(*static, steps, params, state))
  return (time.perf_counter() - began) * 1e3 / steps


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3), donate_argnums=(5,))
def _rounds(target, drafter, verifier, steps: int, params: Params, state):
  body = functools.partial(decoding.decode_round, target, drafter, verifier, params)
  return jax.lax.fori_loop(0, steps, lambda _, state: body(state), state)


def _table(rows: list[dict], label: str) -> table.Table:
  title = f'Sampling as a share of a round of {label}'
  columns = 'tokens scored', 'verifier', 'settings', 'round, ms', 'of it sampling'
  shown = table.Table(*columns, title=title, title_justify='left', box=box.MARKDOWN)
  for row in rows:
    settings = ' '.join(f'{k}={v}' for k, v in row['settings'].items()) or '-'
    ms, share = f'{row["round_ms"]:.1f}', f'{row["share"]:.1%}'
    shown.add_row(str(row['window']), row['verifier'], settings, ms, share)
  return shown
