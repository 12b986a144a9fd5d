"""The transformers side of `transformers_baseline`: one JSON request and answer a line.

python transformers_worker.py MODEL_DIRECTORY THREADS

A request holds `prompt` (token ids) and keyword arguments of `generate`; the answer
`tokens`, `total_s`, `first_s` (until the first tokens came out) and `first_count` (how
many those were). It imports neither jax nor specjax.
"""

import json
import sys
import time

import torch
import transformers
from transformers import generation


class Stamp(generation.BaseStreamer):
  """Notes when the first new tokens came, and how many."""

  def __init__(self):
    self.puts = 0

  def put(self, value):
    """Called with the prompt, then with the new tokens of each step."""
    if self.puts == 1:
      self.first = time.perf_counter()
      self.first_count = value.numel()
    self.puts += 1

  def end(self):
    """Nothing to note."""


def answer(model, prompt: list[int], **settings) -> dict:
  ids = torch.tensor([prompt])
  stamp = Stamp()
  began = time.perf_counter()
  out = model.generate(
    ids,
    attention_mask=torch.ones_like(ids),
    do_sample=False,
    use_cache=True,
    streamer=stamp,
    **settings,
  )
  ended = time.perf_counter()
  return {
    'tokens': out[0, len(prompt) :].tolist(),
    'total_s': ended - began,
    'first_s': stamp.first - began,
    'first_count': stamp.first_count,
  }


def main(directory: str, threads: str) -> None:
  torch.set_num_threads(int(threads))
  transformers.logging.set_verbosity_error()
  transformers.logging.disable_progress_bar()
  model = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()
  if model.dtype != torch.float32:
    raise ValueError(f'the weights were loaded as {model.dtype}, not as float32')
  about = f'transformers {transformers.__version__}, torch {torch.__version__}'
  print(json.dumps({'about': about}), flush=True)
  for line in sys.stdin:
    print(json.dumps(answer(model, **json.loads(line))), flush=True)


if __name__ == '__main__':
  main(*sys.argv[1:])
