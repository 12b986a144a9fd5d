"""A target from a checkpoint: every tensor used once, or an error that names it."""

import re

import jax.numpy as jnp
import numpy as np
from flax import nnx

from specjax.checkpoints import Checkpoint
from specjax.targets import families, transformer
from specjax.targets.families import parse_config

__all__ = ['build', 'parse_config', 'tensor_shapes']

# Buffers that old checkpoints store and every implementation computes.
_COMPUTED = re.compile(r'rotary_emb\.inv_freq$')
# Our paths to Hugging Face's names, those of a layer without `model.layers.N.`; a `*`
# stands for the number of an expert.
_NAMES = {
  'embedding': 'model.embed_tokens.weight',
  'norm.scale': 'model.norm.weight',
  'head': 'lm_head.weight',
  'attention_norm.scale': 'input_layernorm.weight',
  'mlp_norm.scale': 'post_attention_layernorm.weight',
  **{f'attention.{x}.kernel': f'self_attn.{x}_proj.weight' for x in 'qkvo'},
  **{f'attention.{x}.bias': f'self_attn.{x}_proj.bias' for x in 'qkvo'},
  **{f'attention.{x}_norm.scale': f'self_attn.{x}_norm.weight' for x in 'qk'},
  **{f'mlp.{x}.kernel': f'mlp.{x}_proj.weight' for x in ('gate', 'up', 'down')},
  **{f'mlp.{x}.bias': f'mlp.{x}_proj.bias' for x in ('gate', 'up', 'down')},
  **{f'mlp.{x}': f'mlp.experts.*.{x}_proj.weight' for x in ('gate', 'up', 'down')},
  'mlp.router': 'mlp.gate.weight',
}


def build(checkpoint: Checkpoint) -> tuple[transformer.TransformerTarget, nnx.State]:
  """The target and its weights, in the default float: float32 unless x64 is enabled.

  Raises:
    ValueError: an unknown or unsupported architecture; a tensor that is missing, left
      over, of another shape than config.json says, or not finite.
  """
  family = families.family(checkpoint.config)
  target, params = transformer.abstract(parse_config(checkpoint.config))
  wanted = nnx.to_flat_state(params)
  names = [name for path, leaf in wanted for name in _stored(path, leaf, family)]
  _check_names(names, checkpoint, target.cfg.tied, family)
  read = [(path, _read(path, leaf, family, checkpoint)) for path, leaf in wanted]
  return target, nnx.from_flat_state(read)


def tensor_shapes(config: dict) -> dict[str, tuple[int, ...]]:
  """The tensors that a checkpoint with this config.json holds, by Hugging Face's names.

  Matrices are [out, in] there. Nothing is allocated. Raises as `parse_config`.
  """
  family = families.family(config)
  _, params = transformer.abstract(parse_config(config))
  return {
    name: shape
    for path, leaf in nnx.to_flat_state(params)
    for name, shape in _stored(path, leaf, family).items()
  }


def _stored(
  path: tuple, leaf: nnx.Variable, family: families.Family
) -> dict[str, tuple[int, ...]]:
  """Names and shapes of the tensors that make up one of our weights.

  One; or one an expert, where ours is their stack.
  """
  shape = leaf.shape[-2:][::-1]
  in_layer = path[0] == 'layers'
  name = (_NAMES | dict(family.names))['.'.join(path[2:] if in_layer else path)]
  if in_layer:
    name = f'model.layers.{path[1]}.{name}'
  name = family.prefix + name
  if '*' not in name:
    return {name: shape}
  return {name.replace('*', str(expert)): shape for expert in range(leaf.shape[0])}


def _check_names(
  wanted: list[str], checkpoint: Checkpoint, tied: bool, family: families.Family
) -> None:
  needless = {family.prefix + _NAMES['head']} if tied else set()
  known = {*wanted, *needless}
  missing = [name for name in wanted if name not in checkpoint.tensors]
  unused = [
    name
    for name in checkpoint.tensors
    if name not in known
    and not _COMPUTED.search(name)
    and not name.startswith(family.ignored)
  ]
  if missing or unused:
    raise ValueError(
      f'{checkpoint.label} does not fit its config: '
      f'{len(missing)} tensors missing ({_some(missing)}), '
      f'{len(unused)} unused ({_some(unused)})'
    )


def _some(names: list[str]) -> str:
  return ', '.join(names[:5] + ['...'] * (len(names) > 5)) or 'none'


def _read(
  path: tuple, leaf: nnx.Variable, family: families.Family, checkpoint: Checkpoint
) -> nnx.Variable:
  """A weight as we lay it out: matrices are [out, in] there, [in, out] here."""
  dtype = jnp.zeros(()).dtype
  parts = []
  for name, shape in _stored(path, leaf, family).items():
    tensor = checkpoint.tensors[name]
    if tensor.shape != shape:
      raise ValueError(f'{name} has shape {tensor.shape}, the config asks for {shape}')
    array = np.ascontiguousarray(tensor.T, dtype)
    if not np.isfinite(array).all():
      raise ValueError(f'{name} holds numbers that are not finite')
    parts.append(array)
  array = parts[0] if len(leaf.shape) < 3 else np.stack(parts)
  if path[-1] == 'scale':
    array = array + np.asarray(family.norm_offset, dtype)
  return leaf.replace(jnp.asarray(array))
