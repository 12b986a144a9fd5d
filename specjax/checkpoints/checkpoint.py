"""What every loader returns: a model's config, weights by name, and tokenizer."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from specjax import text


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LazyTensors(Mapping[str, np.ndarray]):
  """A read-only mapping that reads a tensor from disk each time it is asked for one.

  Going through `items()` holds one tensor at a time.
  """

  readers: Mapping[str, Callable[[], np.ndarray]]

  def __getitem__(self, name: str) -> np.ndarray:
    return self.readers[name]()

  def __contains__(self, name: object) -> bool:
    return name in self.readers

  def __iter__(self) -> Iterator[str]:
    return iter(self.readers)

  def __len__(self) -> int:
    return len(self.readers)


@dataclasses.dataclass(frozen=True, eq=False)
class Checkpoint:
  """A model as stored, in Hugging Face's names whatever the file format.

  Attributes:
    config: the keys of `config.json`.
    tensors: weights by name (`model.layers.0.self_attn.q_proj.weight`, ...), in their
      stored dtype and Hugging Face's layout, [out, in] for a projection.
    tokenizer: None where the checkpoint holds none, as draft heads do.
    label: names the weights in results, as in 'SmolLM2-135M-Instruct, Q4_1
      dequantised'.
  """

  config: dict[str, Any]
  tensors: Mapping[str, np.ndarray]
  tokenizer: text.Tokenizer | None
  label: str
