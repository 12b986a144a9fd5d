r"""Plain decoding here and in `transformers`: same weights, float32, same threads.

A speed-up says little if its baseline is slow, so this measures the baseline itself.
SmolLM2's dequantised weights go into a temporary Hugging Face directory; a second
process runs `generate` on them and waits while this one decodes, prompt by prompt. Both
are greedy and end at the same stop tokens. Decoding excludes the prompt: here that is
all new tokens after prefill, there the tokens after the first, from its arrival on.

  pip install 'specjax-lab[peers]'    # or --peer_python=PATH of an environment with it
  python -m experiments.peers.transformers_baseline --prompts=PATH/spec_bench.jsonl

`--assisted` adds transformers' own prompt lookup, against its own baseline. Run it on
an idle machine: torch's threads spin while they wait, so one busy process beside it
slows torch many times over (less so with OMP_WAIT_POLICY=passive), and this side
hardly.
"""

import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import rich
from absl import app, flags
from rich import table
from safetensors.numpy import save_file

import specjax
from experiments import questions
from specjax import checkpoints, decoding, request
from specjax.drafters.autoregressive import Autoregressive
from specjax.model import Model
from specjax.types import Params
from specjax.verifiers.greedy import Greedy

_PROMPTS = flags.DEFINE_string(
  'prompts', 'experiments/prompts/specjax_60.jsonl', "A file in Spec-Bench's format."
)
_NUM_PROMPTS = flags.DEFINE_integer('num_prompts', 12, 'Spread over tasks; 0 = all.')
_MAX_NEW_TOKENS = flags.DEFINE_integer('max_new_tokens', 128, 'At most, a prompt.')
_THREADS = flags.DEFINE_integer('threads', 2, 'CPU cores for either side.')
_PEER_PYTHON = flags.DEFINE_string(
  'peer_python', sys.executable, 'An interpreter that has torch and transformers.'
)
_ASSISTED = flags.DEFINE_bool('assisted', False, "Add transformers' prompt lookup.")

WORKER = Path(__file__).with_name('transformers_worker.py')


@dataclasses.dataclass(frozen=True)
class Generation:
  """One system on one prompt."""

  tokens: list[int]
  total_s: float  # from token ids to the last token
  decoded: int  # the tokens that decode_s covers
  decode_s: float


System = Callable[[list[int]], Generation]


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    sys.exit(f'unknown arguments {argv[1:]}')
  # XLA sizes its thread pool by the cores it may use; the worker inherits them.
  os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: _THREADS.value])
  prompts = questions.load(_PROMPTS.value)
  prompts = questions.select(prompts, _NUM_PROMPTS.value, 'all')
  model = specjax.load('smollm2-135m')
  ids = [questions.token_ids(model, prompt.turns[:1]) for prompt in prompts]
  wanted = _MAX_NEW_TOKENS.value
  # Our programs are compiled once a buffer length, a power of two.
  lengths = {(len(prompt) + wanted - 1).bit_length(): prompt for prompt in ids}
  with tempfile.TemporaryDirectory() as directory:
    export(Path(directory))
    with start_worker(_PEER_PYTHON.value, directory, _THREADS.value) as worker:
      about = read(worker)['about']
      our = functools.partial(ours, model, wanted)
      their = functools.partial(theirs, worker, model.tokenizer.stop_ids, wanted)
      systems: dict[str, System] = {'transformers': their, 'specjax': our}
      if _ASSISTED.value:
        lookup = functools.partial(their, prompt_lookup_num_tokens=5)
        systems['transformers lookup'] = lookup
      for name, system in systems.items():  # warm-up
        for prompt in lengths.values() if name == 'specjax' else ids[:1]:
          system(prompt)
      results = measure(systems, ids)
  print(f'{model.label}, float32, {_THREADS.value} threads, {len(prompts)} prompts')
  print(f'jax {jax.__version__}, {about}')
  rich.print(summary(results))


def export(directory: Path) -> None:
  """The packaged SmolLM2 as a Hugging Face directory in float32."""
  checkpoint = checkpoints.load_gguf(checkpoints.packaged_smollm2())
  config = {'architectures': ['LlamaForCausalLM'], **checkpoint.config}
  (directory / 'config.json').write_text(json.dumps(config))
  weights = directory / 'model.safetensors'
  save_file(dict(checkpoint.tensors.items()), weights, metadata={'format': 'pt'})


def start_worker(python: str, directory: str, threads: int) -> subprocess.Popen:
  command = [python, str(WORKER), directory, str(threads)]
  return subprocess.Popen(
    command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
  )


def read(worker: subprocess.Popen) -> dict:
  """The worker's next line."""
  assert worker.stdout is not None
  line = worker.stdout.readline()
  if not line:
    sys.exit(
      f'{WORKER.name} ended, see above. It needs torch and transformers: '
      "pip install 'specjax-lab[peers]', or give --peer_python"
    )
  return json.loads(line)


def theirs(
  worker, stop_ids: Sequence[int], wanted: int, prompt: list[int], **settings
) -> Generation:
  ends = dict(eos_token_id=list(stop_ids), pad_token_id=stop_ids[0])
  asked = dict(prompt=prompt, max_new_tokens=wanted, **ends, **settings)
  print(json.dumps(asked), file=worker.stdin, flush=True)
  reply = read(worker)
  return Generation(
    tokens=reply['tokens'],
    total_s=reply['total_s'],
    decoded=len(reply['tokens']) - reply['first_count'],
    decode_s=reply['total_s'] - reply['first_s'],
  )


def ours(model: Model, wanted: int, prompt: list[int]) -> Generation:
  static = model.target, Autoregressive(), Greedy()
  params, stop_ids = Params(model.params), model.tokenizer.stop_ids
  began = time.perf_counter()
  state = request.start(
    *static, params, [prompt], max_new_tokens=wanted, stop_ids=stop_ids
  )
  state = decoding.prefill(model.target, Autoregressive(), params, state)
  jax.block_until_ready(state)
  ready = time.perf_counter()
  state = jax.block_until_ready(decoding.decode(*static, params, state))
  ended = time.perf_counter()
  tokens = state.tokens[0, len(prompt) : int(state.length[0])].tolist()
  return Generation(tokens, ended - began, len(tokens), ended - ready)


def measure(
  systems: dict[str, System], prompts: Sequence[list[int]]
) -> dict[str, list[Generation]]:
  """All systems on each prompt, in alternating order."""
  results: dict[str, list[Generation]] = {name: [] for name in systems}
  for number, prompt in enumerate(prompts):
    for name in list(systems)[:: 1 if number % 2 else -1]:
      results[name].append(systems[name](prompt))
    last = [f'{name} {decode_rate(runs[-1:]):.1f}' for name, runs in results.items()]
    print(f'{len(prompt)} prompt tokens: {", ".join(last)} tokens/s', flush=True)
  return results


def summary(results: dict[str, list[Generation]]) -> table.Table:
  """Ratios are of totals, to transformers' plain decoding."""
  columns = 'system', 'decode tokens/s', 'ratio', 'with prefill', 'ratio', 'identical'
  shown = table.Table(*columns)
  base = results['transformers']
  for name, runs in results.items():
    same = sum(a.tokens == b.tokens for a, b in zip(base, runs))
    shown.add_row(
      name,
      f'{decode_rate(runs):.1f}',
      f'{decode_rate(runs) / decode_rate(base):.2f}',
      f'{whole_rate(runs):.1f}',
      f'{whole_rate(runs) / whole_rate(base):.2f}',
      f'{same} of {len(runs)}',
    )
  return shown


def decode_rate(runs: Sequence[Generation]) -> float:
  """Tokens per second without the prompt."""
  return sum(run.decoded for run in runs) / sum(run.decode_s for run in runs)


def whole_rate(runs: Sequence[Generation]) -> float:
  """Tokens per second from token ids to the last token."""
  return sum(len(run.tokens) for run in runs) / sum(run.total_s for run in runs)


if __name__ == '__main__':
  app.run(main)
