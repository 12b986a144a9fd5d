"""What a tree costs: scoring it beside a chain of as many nodes, and keeping its path.

Four ways to score the same number of nodes on top of `used` cached tokens:

  chain    each node behind the one before it: no ancestor mask
  branch   the same, but grown: its parents are data, so it is scored as a tree
  tree     the nodes of a static tree
  kept     that tree, and afterwards a path of full depth is kept in the cache, ten
           times over: once is too cheap to tell

Calls run in one compiled loop with a donated cache, as in step_cost. The four take
turns in every repeat, and ratios are medians over repeats of the ratio within one.
`keep_share` is what keeping the path once adds, as a share of scoring and keeping.

  python -m experiments.main --config=configs/experiments/tree_cost.py --workdir=DIR

Writes tree_cost.json ({"rows": [...]}) and table.md.
"""

import dataclasses
import functools
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
from experiments import progress, rundir
from specjax import sampling, trees
from specjax.types import Tree

WAYS = 'chain', 'branch', 'tree', 'kept'
TIMES = 10  # that the path is kept
WIDTH = 120  # of table.md


@dataclasses.dataclass(frozen=True)
class Case:
  """A static tree, and where it is scored."""

  name: str
  tree: Tree
  used: int
  slots: int
  batch: int

  @property
  def nodes(self) -> int:
    """Drafted nodes; a call scores one row more."""
    return len(trees.paths(self.tree))


@dataclasses.dataclass(frozen=True)
class Row:
  """A case with its times."""

  tree: str
  nodes: int
  used: int
  slots: int
  batch: int
  chain_ms: float
  branch_to_chain: float
  tree_to_chain: float
  keep_share: float


def run(config, workdir: Path) -> None:
  """Measures each of config.trees at each of config.places: (used, slots, batch)."""
  model = specjax.load(config.target)
  cases = [
    Case(name, trees.from_paths(paths), *place)
    for name, paths in config.trees.items()
    for place in config.places
  ]
  rows = cost_table(model.target, model.params, cases, config.repeats, config.steps)
  content = {'rows': [dataclasses.asdict(row) for row in rows]}
  rundir.write_json(workdir / 'tree_cost.json', content)
  shown = _table(rows, model.label)
  rich.print(shown)
  with rundir.opened(workdir / 'table.md', 'w') as file:
    rich.console.Console(file=file, width=WIDTH).print(shown)


def cost_table(
  target, params, cases: Sequence[Case], repeats: int, steps: int
) -> list[Row]:
  """Times every case in each way `repeats` times, in turns; `steps` calls a time.

  Raises:
    ValueError: a case overruns its slots.
  """
  for case in cases:
    if case.used + case.nodes + 1 > case.slots:
      raise ValueError(
        f'{case.name}: {case.used} used and {case.nodes + 1} new tokens do not fit '
        f'into {case.slots} slots'
      )
  caches = {(c.slots, c.batch): target.init_cache(c.batch, c.slots) for c in cases}

  def measure(case: Case, way: str) -> float:
    key = case.slots, case.batch
    ms, caches[key] = _time(target, params, case, way, caches[key], steps)
    return ms

  console = rich.console.Console()
  jobs = [(case, way) for case in cases for way in WAYS]
  for job in progress.track(jobs, 'compile', console):
    measure(*job)
  times = np.empty((repeats, len(jobs)))
  for repeat in progress.track(range(repeats), 'measure', console):
    order = range(len(jobs)) if repeat % 2 == 0 else reversed(range(len(jobs)))
    for index in order:  # there and back: a drift favours no way
      times[repeat, index] = measure(*jobs[index])
  per_case = times.reshape(repeats, len(cases), len(WAYS))
  return [_row(case, per_case[:, index]) for index, case in enumerate(cases)]


def _time(target, params, case: Case, way: str, cache, steps: int):
  """Milliseconds of one call, and the cache for the next."""
  tokens = jnp.zeros((case.batch, case.nodes + 1), jnp.int32)
  used = jnp.full(case.batch, case.used, jnp.int32)
  static = target, steps, TIMES if way == 'kept' else 0
  begin = time.perf_counter()
  result = calls(*static, params, cache, tokens, used, shape(case, way))
  cache, _ = jax.block_until_ready(result)
  return (time.perf_counter() - begin) * 1e3 / steps, cache


def shape(case: Case, way: str) -> Tree:
  """The tree that is scored."""
  chain = trees.chain(case.nodes)
  if way == 'branch':
    return Tree(grown=trees.parents(chain, case.batch))
  return chain if way == 'chain' else case.tree


@functools.partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(4,))
def calls(target, steps: int, keep: int, params, cache, tokens, used, tree: Tree):
  """Scores a tree `steps` times and keeps its deepest path `keep` times each.

  Each call's argmax is the next one's input.
  """

  def call(_, carry):
    cache, tokens = carry
    ancestors, depth = None, jnp.arange(tokens.shape[1])
    if not trees.is_chain(tree):
      parents = trees.parents(tree, len(used))
      if tree.grown is not None:  # another one each time, as in a decode
        parents = parents + jnp.minimum(tokens[:, 1:], 0)
      ancestors = trees.ancestors(parents)
      depth = trees.depths(ancestors)
    out = target(
      params,
      tokens,
      used[:, None] + depth,
      cache,
      slots=used,
      ancestors=ancestors,
      logits_at=None,
      features_at=(),
    )
    cache = out.cache
    if ancestors is not None:
      last = jnp.full(len(used), tokens.shape[1] - 1)
      path = trees.path_to(ancestors, last, trees.max_depth(tree))
      again = lambda _, cache: target.keep_path(cache, used, path)
      cache = jax.lax.fori_loop(0, keep, again, cache)
    return cache, sampling.first_largest(out.logits)

  return jax.lax.fori_loop(0, steps, call, (cache, tokens))


def _row(case: Case, times: np.ndarray) -> Row:
  """From times float[repeats, 4] of a case."""
  chain, branch, tree, kept = times.T
  keep = (kept - tree) / TIMES
  return Row(
    tree=case.name,
    nodes=case.nodes,
    used=case.used,
    slots=case.slots,
    batch=case.batch,
    chain_ms=float(np.median(chain)),
    branch_to_chain=float(np.median(branch / chain)),
    tree_to_chain=float(np.median(tree / chain)),
    keep_share=float(np.median(keep / (tree + keep))),
  )


def _table(rows: Sequence[Row], label: str) -> table.Table:
  title = f'Scoring a tree with {label}; branch and tree over chain, keep of tree'
  columns = 'tree', 'nodes', 'used', 'slots', 'batch', 'chain, ms'
  columns += 'branch', 'tree', 'keep'
  shown = table.Table(*columns, title=title, title_justify='left', box=box.MARKDOWN)
  for row in rows:
    *place, chain_ms, branch, tree, keep = dataclasses.astuple(row)
    ratios = f'{chain_ms:.1f}', f'{branch:.3f}', f'{tree:.3f}', f'{keep:.2%}'
    shown.add_row(*map(str, place), *ratios)
  return shown
