"""A tiny Llama with random weights on the toy tokenizer."""

from specjax.model import Model
from specjax.targets import transformer
from specjax.testing import toy_text

CONFIG = transformer.TransformerConfig(
  vocab_size=toy_text.VOCAB_SIZE,
  hidden_size=64,
  intermediate_size=128,
  num_layers=2,
  num_heads=4,
  num_kv_heads=2,
  head_dim=16,
  max_positions=1024,
  tied=False,
)


def tiny_model(seed: int = 1) -> Model:
  """Two layers, hidden size 64, two query heads a key-value head; float32."""
  target, params = transformer.build(CONFIG, seed)
  return Model(target, params, toy_text.toy_tokenizer(), 'tiny')
