"""A target from a checkpoint: every tensor used once, or an error that names it."""

import re

import jax.numpy as jnp
import numpy as np
from flax import nnx

from specjax.checkpoints import Checkpoint
from specjax.targets import transformer

KNOWN = ('llama',)
# Buffers that old checkpoints store and every implementation computes.
_COMPUTED = re.compile(r'rotary_emb\.inv_freq$')
_REQUIRED = (
  'vocab_size',
  'hidden_size',
  'intermediate_size',
  'num_hidden_layers',
  'num_attention_heads',
  'max_position_embeddings',
  'rms_norm_eps',
)
_HF_NAMES = {
  'embedding': 'model.embed_tokens.weight',
  'norm.scale': 'model.norm.weight',
  'head': 'lm_head.weight',
  'attention_norm.scale': 'input_layernorm.weight',
  'mlp_norm.scale': 'post_attention_layernorm.weight',
  **{f'attention.{x}.kernel': f'self_attn.{x}_proj.weight' for x in 'qkvo'},
  **{f'mlp.{x}.kernel': f'mlp.{x}_proj.weight' for x in ('gate', 'up', 'down')},
}


def build(checkpoint: Checkpoint) -> tuple[transformer.TransformerTarget, nnx.State]:
  """The target and its weights in float32.

  Raises:
    ValueError: an unknown or unsupported architecture; a tensor that is missing, left
      over, of another shape than config.json says, or not finite.
  """
  target, params = transformer.abstract(parse_config(checkpoint.config))
  wanted = nnx.to_flat_state(params)
  _check_names([_hf_name(path) for path, _ in wanted], checkpoint, target.cfg.tied)
  read = [(path, _read(_hf_name(path), leaf, checkpoint)) for path, leaf in wanted]
  return target, nnx.from_flat_state(read)


def parse_config(config: dict) -> transformer.TransformerConfig:
  """Reads Hugging Face's config.json.

  Raises:
    ValueError: the architecture, or one of its options, is not supported.
  """
  if config.get('model_type') not in KNOWN:
    raise ValueError(
      f'model_type {config.get("model_type")!r} is not supported; known: '
      + ', '.join(KNOWN)
    )
  absent = [key for key in _REQUIRED if key not in config]
  if absent:
    raise ValueError(f'config.json lacks {", ".join(absent)}')
  supported = {'hidden_act': 'silu', 'attention_bias': False, 'mlp_bias': False}
  for key, value in supported.items():
    if config.get(key, value) != value:
      raise ValueError(f'{key} = {config[key]!r} is not supported, only {value!r}')
  rope = config.get('rope_parameters') or config.get('rope_scaling') or {}
  if rope.get('rope_type', rope.get('type', 'default')) != 'default':
    raise ValueError(f'rope scaling {rope} is not supported, only the default')
  heads = config['num_attention_heads']
  kv_heads = config.get('num_key_value_heads') or heads
  if heads % kv_heads:
    raise ValueError(f'{heads} query heads cannot share {kv_heads} key-value heads')
  return transformer.TransformerConfig(
    vocab_size=config['vocab_size'],
    hidden_size=config['hidden_size'],
    intermediate_size=config['intermediate_size'],
    num_layers=config['num_hidden_layers'],
    num_heads=heads,
    num_kv_heads=kv_heads,
    head_dim=config.get('head_dim') or config['hidden_size'] // heads,
    max_positions=config['max_position_embeddings'],
    rope_theta=float(config.get('rope_theta') or rope.get('rope_theta', 10000.0)),
    norm_eps=config['rms_norm_eps'],
    tied=config.get('tie_word_embeddings', False),
  )


def _hf_name(path: tuple) -> str:
  if path[0] != 'layers':
    return _HF_NAMES['.'.join(path)]
  return f'model.layers.{path[1]}.{_HF_NAMES[".".join(path[2:])]}'


def _check_names(wanted: list[str], checkpoint: Checkpoint, tied: bool) -> None:
  missing = [name for name in wanted if name not in checkpoint.tensors]
  unused = [
    name
    for name in checkpoint.tensors
    if name not in wanted
    and not _COMPUTED.search(name)
    and not (tied and name == _HF_NAMES['head'])
  ]
  if missing or unused:
    raise ValueError(
      f'{checkpoint.label} does not fit its config: '
      f'{len(missing)} tensors missing ({_some(missing)}), '
      f'{len(unused)} unused ({_some(unused)})'
    )


def _some(names: list[str]) -> str:
  return ', '.join(names[:5] + ['...'] * (len(names) > 5)) or 'none'


def _read(name: str, leaf: nnx.Variable, checkpoint: Checkpoint) -> nnx.Variable:
  """A stored tensor as we lay it out: matrices are [out, in] there, [in, out] here."""
  tensor = checkpoint.tensors[name].T
  if tensor.shape != leaf.shape:
    raise ValueError(
      f'{name} has shape {tensor.T.shape}, the config asks for {leaf.shape[::-1]}'
    )
  array = np.ascontiguousarray(tensor, np.float32)
  if not np.isfinite(array).all():
    raise ValueError(f'{name} holds numbers that are not finite')
  return leaf.replace(jnp.asarray(array))
