"""Hugging Face's config.json: the keys that mean the same in every family."""

from collections.abc import Mapping
from typing import Any

from specjax.targets import rope
from specjax.targets.config import LayerConfig, TransformerConfig
from specjax.targets.layers import ACTIVATIONS
from specjax.targets.rope import Rope

Config = Mapping[str, Any]
FULL, SLIDING = 'full_attention', 'sliding_attention'
_REQUIRED = (
  'vocab_size',
  'hidden_size',
  'intermediate_size',
  'num_hidden_layers',
  'num_attention_heads',
  'max_position_embeddings',
  'rms_norm_eps',
)


def check_keys(config: Config) -> None:
  """Refuses a config.json without the shapes."""
  absent = [key for key in _REQUIRED if key not in config]
  if absent:
    raise ValueError(f'config.json lacks {", ".join(absent)}')


def decoder(
  config: Config,
  layers: tuple[LayerConfig, ...],
  *,
  activation_key: str = 'hidden_act',
  **more,
) -> TransformerConfig:
  """What all families have; `more` is what one sets otherwise."""
  heads = config['num_attention_heads']
  kv_heads = config.get('num_key_value_heads') or heads
  head_dim = config.get('head_dim') or config['hidden_size'] // heads
  if heads % kv_heads:
    raise ValueError(f'{heads} query heads cannot share {kv_heads} key-value heads')
  if head_dim % 2:
    raise ValueError(f'head_dim = {head_dim} is odd: it cannot be rotated in pairs')
  activation = config.get(activation_key, 'silu')
  if activation not in ACTIVATIONS:
    known = ', '.join(ACTIVATIONS)
    raise ValueError(
      f'{activation_key} = {activation!r} is not supported, only {known}'
    )
  bias = config.get('attention_bias', False)
  settings = dict(qkv_bias=bias, output_bias=bias) | more
  return TransformerConfig(
    vocab_size=config['vocab_size'],
    hidden_size=config['hidden_size'],
    intermediate_size=config['intermediate_size'],
    num_layers=config['num_hidden_layers'],
    num_heads=heads,
    num_kv_heads=kv_heads,
    head_dim=head_dim,
    max_positions=config['max_position_embeddings'],
    norm_eps=config['rms_norm_eps'],
    tied=config.get('tie_word_embeddings', False),
    layers=layers,
    activation=activation,
    **settings,
  )


def layers(
  config: Config, kinds: list[str], whole: Rope, local: Rope | None = None
) -> tuple[LayerConfig, ...]:
  """One a layer: by `layer_types` if config.json has it, else by `kinds` in turn.

  whole is the rotation of layers that see all, local that of the others.
  """
  count, window = config['num_hidden_layers'], config.get('sliding_window')
  kinds = config.get('layer_types') or [kinds[i % len(kinds)] for i in range(count)]
  unknown = sorted(set(kinds) - {FULL, SLIDING})
  if unknown:
    raise ValueError(
      f'layer_types = {", ".join(unknown)} is not supported, only {FULL} and {SLIDING}'
    )
  if len(kinds) != count:
    raise ValueError(f'layer_types names {len(kinds)} layers of {count}')
  if SLIDING in kinds and not (window and window > 0):
    raise ValueError(f'{SLIDING} needs a sliding_window, which is {window!r}')
  see_all, see_some = LayerConfig(None, whole), LayerConfig(window, local or whole)
  return tuple(see_some if kind == SLIDING else see_all for kind in kinds)


def rotation(config: Config) -> Rope:
  """The rotation of a family that has one for all layers."""
  parameters = config.get('rope_scaling') or config.get('rope_parameters') or {}
  return stretched(config, parameters, config.get('rope_theta') or 10000.0)


def stretched(config: Config, parameters: Config, theta: float) -> Rope:
  """`rope.parse` with what it wants to know besides."""
  return rope.parse(
    parameters,
    theta=theta,
    max_positions=config['max_position_embeddings'],
    trained=config.get('original_max_position_embeddings'),
  )


def supported(config: Config, **values) -> None:
  """Refuses keys of config.json that are set to anything but these values."""
  for key, value in values.items():
    if config.get(key) not in (value, None):
      raise ValueError(f'{key} = {config[key]!r} is not supported, only {value!r}')
