"""What generation costs besides time per token: compiling, starting up, memory.

SmolLM2 with prompt lookup (5 tokens), greedy, batch 1, buffer 1024. Each of the three
is measured in a fresh process:

- compilation: of prefill and decode, with an empty compilation cache;
- first token: from process start, with the cache filled before: imports, loading the
  weights, the prompt and one token;
- memory: growth over the idle process, in which jax is imported and initialised, after
  64 tokens, as a ratio to the bytes of weights and caches. Resident (VmRSS of
  /proc/self/status) and its peak (VmHWM); in use, that is after the C library has
  returned freed pages. What exceeds 1 is mostly compiled programs, about 4 kB for an
  XLA instruction, and what compiling left behind. Linux with glibc only.

python -m experiments.footprint
"""

import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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


def main() -> None:
  with tempfile.TemporaryDirectory() as cache:
    compiled = in_fresh_process('compilation', cache)
    began = time.time()
    first = in_fresh_process('first_token', cache) - began
    grown = in_fresh_process('memory', cache)
  # The limits are what specjax promises on two CPU cores.
  shown = table.Table('', 'measured', 'at most')
  shown.add_row('compilation', f'{compiled:.1f} s', '60 s')
  shown.add_row('first token', f'{first:.1f} s', '15 s')
  needed = grown.pop('weights and caches')
  shown.add_row('weights and caches', f'{needed:.0f} MB')
  for name, megabytes in grown.items():
    ratio = f'{megabytes:.0f} MB = {megabytes / needed:.2f}x'
    shown.add_row(f'memory growth, {name}', ratio, '1.4x')
  rich.print(shown)


def in_fresh_process(measurement: str, cache: str) -> Any:
  """What the measurement returns."""
  command = [sys.executable, '-m', 'experiments.footprint', measurement]
  env = os.environ | {'JAX_COMPILATION_CACHE_DIR': cache}
  done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
  return json.loads(done.stdout)


def compilation() -> float:
  """Seconds to compile prefill and decode."""
  model = specjax.load('smollm2-135m')
  static, params = (model.target, PromptLookup(), Greedy()), Params(model.params)
  state = start(model, max_new_tokens=64)
  began = time.perf_counter()
  decoding.prefill.lower(*static[:2], params, state).compile()
  decoding.decode.lower(*static, params, state).compile()
  return time.perf_counter() - began


def first_token() -> float:
  """When it was there."""
  generate(specjax.load('smollm2-135m'), max_new_tokens=1)
  return time.time()


def memory() -> dict[str, float]:
  """Megabytes needed, and by how much the process grew."""
  jax.block_until_ready(jnp.zeros(1))
  idle = status('VmRSS')
  model = specjax.load('smollm2-135m')
  state = generate(model, max_new_tokens=64)
  arrays = jax.tree.leaves((model.params, state.cache))
  grown = {
    'weights and caches': sum(array.nbytes for array in arrays) / 1e6,
    'resident': status('VmRSS') - idle,
    'peak': status('VmHWM') - idle,
  }
  gc.collect()
  ctypes.CDLL('libc.so.6').malloc_trim(0)
  return grown | {'in use': status('VmRSS') - idle}


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


def status(field: str) -> float:
  """A memory field of /proc/self/status, in MB."""
  lines = Path('/proc/self/status').read_text().splitlines()
  (line,) = [line for line in lines if line.startswith(field)]
  return int(line.split()[1]) * 1024 / 1e6


if __name__ == '__main__':
  measurements = {f.__name__: f for f in (compilation, first_token, memory)}
  if len(sys.argv) == 1:
    main()
  elif sys.argv[1] in measurements:
    print(json.dumps(measurements[sys.argv[1]]()))
  else:
    sys.exit(f'unknown arguments {sys.argv[1:]}; there are none to give')
