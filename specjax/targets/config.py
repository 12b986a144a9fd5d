"""What describes a decoder: shapes, constants, and what differs between layers."""

import dataclasses

from specjax.targets.rope import Rope


@dataclasses.dataclass(frozen=True)
class Experts:
  """A mixture of experts in place of an MLP."""

  count: int
  chosen: int  # of them, for each token
  size: int  # an expert's width, what intermediate_size is to an MLP
  normalized: bool  # the weights of those chosen are made to sum to 1


@dataclasses.dataclass(frozen=True)
class LayerConfig:
  """What may differ from layer to layer."""

  sliding_window: int | None = None  # positions seen, itself included; None: all
  rope: Rope = Rope()
  experts: Experts | None = None  # None: an MLP


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
  """Shapes and constants, named as in Hugging Face's config.json where they agree.

  The defaults are Llama's. No family has a name here: `families` says what each of
  them sets.
  """

  vocab_size: int
  hidden_size: int
  intermediate_size: int
  num_layers: int
  num_heads: int
  num_kv_heads: int
  head_dim: int
  max_positions: int
  norm_eps: float = 1e-5
  tied: bool = True
  layers: tuple[LayerConfig, ...] = ()  # one a layer; (): all are LayerConfig()
  activation: str = 'silu'  # a key of layers.ACTIVATIONS
  qkv_bias: bool = False
  output_bias: bool = False
  mlp_bias: bool = False
  qk_norm: bool = False  # RMS norm of each query and key head, before rotation
  post_norms: bool = False  # RMS norm also of what attention and MLP return
  query_scale: float | None = None  # of the scores; None: head_dim ** -0.5
  embedding_scale: float = 1.0
  attention_softcap: float | None = None  # cap * tanh(scores / cap)
  logit_softcap: float | None = None

  def layer(self, depth: int) -> LayerConfig:
    """What the layer at this depth has of its own."""
    return self.layers[depth] if self.layers else LayerConfig()

  def first_layers(self, num_layers: int) -> 'TransformerConfig':
    """The same with its first layers only."""
    return dataclasses.replace(
      self, num_layers=num_layers, layers=self.layers[:num_layers]
    )
