"""What one target call costs against its window, used context, buffer and batch.

Speculation pays while scoring K + 1 tokens costs little more than scoring one, so this
table is the other half of every speed-up. A call forms the logits of all T tokens and
takes their argmax. Calls run in one compiled loop with a donated cache, as in the real
decode; all cases take turns in every repeat, because a machine's speed drifts, and
`ratio_to_one` is the median over repeats of T's time over one token's in that repeat.

  python -m experiments.main --config=configs/experiments/step_cost.py --workdir=DIR

Writes step_cost.json ({"rows": [...]}; read it with `load`), table.md and plots/.
"""

import dataclasses
import functools
import json
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import rich
import rich.console
from rich import box, table

import specjax
from experiments import figures, progress, rundir
from specjax import sampling


@dataclasses.dataclass(frozen=True)
class Case:
  """One setting to measure: T tokens at once on top of `used` cached ones."""

  window: int
  used: int
  slots: int
  batch: int

  @property
  def one(self) -> 'Case':
    """The same for a single token: what `ratio_to_one` divides by."""
    return dataclasses.replace(self, window=1)


@dataclasses.dataclass(frozen=True)
class Row(Case):
  """A case with its times, in milliseconds a call."""

  ms_min: float
  ms_median: float
  ratio_to_one: float


def run(config, workdir: Path) -> None:
  """Measures config.cases, (window, used, slots, batch) each, on config.target."""
  model = specjax.load(config.target)
  cases = [Case(*case) for case in config.cases]
  rows = cost_table(
    model.target, model.params, cases, repeats=config.repeats, steps=config.steps
  )
  content = {'rows': [dataclasses.asdict(row) for row in rows]}
  rundir.write_json(workdir / 'step_cost.json', content)
  shown = _table(rows, model.label)
  rich.print(shown)
  with rundir.opened(workdir / 'table.md', 'w') as file:
    rich.print(shown, file=file)
  figures.write_costs(workdir, content['rows'])


def load(path: str | Path) -> list[Row]:
  """The rows of a step_cost.json."""
  return [Row(**row) for row in json.loads(Path(path).read_text())['rows']]


def cost_table(
  target, params, cases: Sequence[Case], *, repeats: int = 9, steps: int = 10
) -> list[Row]:
  """Times every case `repeats` times, in turns; `steps` calls a time.

  Raises:
    ValueError: a case overruns its slots, or lacks its one-token case.
  """
  _check(cases)
  caches = {(c.slots, c.batch): target.init_cache(c.batch, c.slots) for c in cases}

  def measure(case: Case) -> float:
    key = case.slots, case.batch
    ms, caches[key] = _time(target, params, case, caches[key], steps)
    return ms

  console = rich.console.Console()
  for case in progress.track(cases, 'compile', console):
    measure(case)
  times: dict[Case, list[float]] = {case: [] for case in cases}
  for repeat in progress.track(range(repeats), 'measure', console):
    # There and back: a drift within a repeat favours no window.
    for case in cases if repeat % 2 == 0 else reversed(cases):
      times[case].append(measure(case))
  return [
    _row(case, np.array(times[case]), np.array(times[case.one])) for case in cases
  ]


def _check(cases: Sequence[Case]) -> None:
  for case in cases:
    if case.used + case.window > case.slots:
      raise ValueError(
        f'{case}: {case.used} used and {case.window} new tokens do not fit into '
        f'{case.slots} slots'
      )
    if case.one not in cases:
      raise ValueError(
        f'{case} has no case of window 1 to compare with: add {case.one}'
      )


def _time(target, params, case: Case, cache, steps: int):
  """Milliseconds of one call, and the cache for the next."""
  tokens = jnp.zeros((case.batch, case.window), jnp.int32)
  used = jnp.full(case.batch, case.used, jnp.int32)
  begin = time.perf_counter()
  cache, _ = jax.block_until_ready(_calls(target, steps, params, cache, tokens, used))
  return (time.perf_counter() - begin) * 1e3 / steps, cache


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=(3,))
def _calls(target, steps: int, params, cache, tokens, used):
  """Scores a window `steps` times; each call's argmax is the next one's input."""

  def call(_, carry):
    cache, tokens = carry
    out = target(
      params,
      tokens,
      used[:, None] + jnp.arange(tokens.shape[1]),
      cache,
      slots=used,
      ancestors=None,
      logits_at=None,
      features_at=(),
    )
    return out.cache, sampling.first_largest(out.logits)

  return jax.lax.fori_loop(0, steps, call, (cache, tokens))


def _row(case: Case, times: np.ndarray, ones: np.ndarray) -> Row:
  return Row(
    **dataclasses.asdict(case),
    ms_min=float(times.min()),
    ms_median=float(np.median(times)),
    ratio_to_one=float(np.median(times / ones)),
  )


def _table(rows: Sequence[Row], label: str) -> table.Table:
  columns = [field.name for field in dataclasses.fields(Row)]
  title = f'One target call of {label}'
  shown = table.Table(*columns, title=title, title_justify='left', box=box.MARKDOWN)
  for row in rows:
    cells = dataclasses.astuple(row)
    shown.add_row(*(f'{x:.2f}' if isinstance(x, float) else str(x) for x in cells))
  return shown
