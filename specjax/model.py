"""A target with its weights and tokenizer, from a preset, a directory or a hub id."""

import dataclasses
from pathlib import Path
from typing import Any

from specjax import checkpoints, text
from specjax.targets import from_checkpoint

PRESETS = {'smollm2-135m': checkpoints.packaged_smollm2}


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
  """What `load` returns: static target, its arrays, and how text becomes tokens."""

  target: Any  # a specjax.types.Target
  params: Any
  tokenizer: text.Tokenizer
  label: str  # names the weights in results

  def chat(self, message: str) -> list[int]:
    """Token ids of one user message in the model's chat template."""
    return self.tokenizer.chat([{'role': 'user', 'content': message}])


def load(source: str | Path) -> Model:
  """Loads a target in float32.

  Args:
    source: a preset ('smollm2-135m'), a GGUF file, a Hugging Face directory, a hub id.

  Raises:
    ValueError, FileNotFoundError: what is wrong with the files, by name.
  """
  if source in PRESETS:
    checkpoint = checkpoints.load_gguf(PRESETS[str(source)]())
  elif str(source).endswith('.gguf'):
    checkpoint = checkpoints.load_gguf(source)
  else:
    checkpoint = checkpoints.load_directory(source)
  if checkpoint.tokenizer is None:
    raise ValueError(f'{source} holds no tokenizer.json: a target needs one')
  target, params = from_checkpoint.build(checkpoint)
  return Model(target, params, checkpoint.tokenizer, checkpoint.label)
