"""What generation costs besides time per token: compiling, starting up, memory.

SmolLM2 with prompt lookup (5 tokens), greedy, batch 1, buffer 1024. Each of the three
is measured in a fresh process:

- compilation: of prefill and decode, with an empty compilation cache;
- first token: from process start, with the cache filled before: imports, loading the
  weights, the prompt and one token;
- memory: growth over the idle process, in which jax is imported and initialised, after
  64 tokens, as a ratio to the bytes of weights and caches; resident now (VmRSS in
  /proc/self/status, Linux only) and at the peak (VmHWM), which includes loading.

python -m experiments.footprint
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import rich
from rich import table

import specjax
from specjax import decoding, request
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.model import Model
from specjax.types import DecodeState, Params
from specjax.verifiers.greedy import Greedy

PROMPT = 'Write a short poem about the sea, then repeat the poem word by word.'
# What specjax promises on two CPU cores.
LIMITS = {
  'compilation, s': 60,
  'first token, s': 15,
  'memory growth / (weights + caches), now': 1.4,
  'memory growth / (weights + caches), peak': 1.4,
}


def main() -> None:
  with tempfile.TemporaryDirectory() as cache:
    parts = [in_fresh_process(name, cache) for name in MEASUREMENTS]
  measured = {name: value for part in parts for name, value in part.items()}
  shown = table.Table('', 'measured', 'at most')
  for name, value in measured.items():
    shown.add_row(name, f'{value:.2f}', str(LIMITS.get(name, '')))
  rich.print(shown)


def in_fresh_process(measurement: str, cache: str) -> dict[str, float]:
  """What the measurement prints on its last line."""
  command = [sys.executable, '-m', 'experiments.footprint', measurement]
  env = os.environ | {'JAX_COMPILATION_CACHE_DIR': cache}
  ran = subprocess.run(
    [*command, str(time.time())], env=env, stdout=subprocess.PIPE, text=True, check=True
  )
  return json.loads(ran.stdout.splitlines()[-1])


def compilation(process_start: float) -> dict[str, float]:
  model = specjax.load('smollm2-135m')
  state = start(model, max_new_tokens=64)
  began = time.perf_counter()
  decoding.prefill.lower(
    model.target, PromptLookup(), Params(model.params), state
  ).compile()
  static = model.target, PromptLookup(), Greedy()
  decoding.decode.lower(*static, Params(model.params), state).compile()
  return {'compilation, s': time.perf_counter() - began}


def first_token(process_start: float) -> dict[str, float]:
  generate(specjax.load('smollm2-135m'), max_new_tokens=1)
  return {'first token, s': time.time() - process_start}


def memory(process_start: float) -> dict[str, float]:
  jax.block_until_ready(jnp.zeros(1))
  idle = resident('VmRSS')
  model = specjax.load('smollm2-135m')
  loaded = resident('VmRSS') - idle
  state = generate(model, max_new_tokens=64)
  now, peak = resident('VmRSS') - idle, resident('VmHWM') - idle
  arrays = jax.tree.leaves((model.params, state.cache))
  needed = sum(array.nbytes for array in arrays) / 1e6
  return {
    'weights + caches, MB': needed,
    'memory growth, loaded, MB': loaded,
    'memory growth, now, MB': now,
    'memory growth, peak, MB': peak,
    'memory growth / (weights + caches), now': now / needed,
    'memory growth / (weights + caches), peak': peak / needed,
  }


MEASUREMENTS = {f.__name__: f for f in (compilation, first_token, memory)}


def start(model: Model, max_new_tokens: int) -> DecodeState:
  static = model.target, PromptLookup(), Greedy()
  ids, params = [model.chat(PROMPT)], Params(model.params)
  return request.start(
    *static, params, ids, max_new_tokens=max_new_tokens, max_len=1024
  )


def generate(model: Model, max_new_tokens: int) -> DecodeState:
  static = model.target, PromptLookup(), Greedy()
  state = start(model, max_new_tokens)
  state = decoding.prefill(model.target, PromptLookup(), Params(model.params), state)
  state = decoding.decode(*static, Params(model.params), state)
  return jax.block_until_ready(state)


def resident(field: str) -> float:
  """VmRSS (now) or VmHWM (peak) in MB."""
  lines = Path('/proc/self/status').read_text().splitlines()
  (line,) = [line for line in lines if line.startswith(field)]
  return int(line.split()[1]) * 1024 / 1e6


if __name__ == '__main__':
  if len(sys.argv) > 1:
    print(json.dumps(MEASUREMENTS[sys.argv[1]](float(sys.argv[2]))))
  else:
    main()
