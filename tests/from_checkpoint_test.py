"""Loading: parity with a plain numpy Llama, and every way a checkpoint can be wrong."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from specjax import checkpoints
from specjax.targets import from_checkpoint
from specjax.testing import toy_text

CONFIG = {
  'model_type': 'llama',
  'vocab_size': 50,
  'hidden_size': 24,
  'intermediate_size': 40,
  'num_hidden_layers': 2,
  'num_attention_heads': 6,
  'num_key_value_heads': 2,
  'head_dim': 8,
  'max_position_embeddings': 128,
  'rms_norm_eps': 1e-5,
  'rope_theta': 1e4,
  'tie_word_embeddings': False,
  'hidden_act': 'silu',
}
Q_PROJ = 'model.layers.1.self_attn.q_proj.weight'


def _tensors(config=CONFIG, seed=0):
  rng = np.random.default_rng(seed)
  size, wide = config['hidden_size'], config['intermediate_size']
  q = config['num_attention_heads'] * config['head_dim']
  kv = config['num_key_value_heads'] * config['head_dim']
  layer = {
    'input_layernorm': (size,),
    'post_attention_layernorm': (size,),
    'self_attn.q_proj': (q, size),
    'self_attn.k_proj': (kv, size),
    'self_attn.v_proj': (kv, size),
    'self_attn.o_proj': (size, q),
    'mlp.gate_proj': (wide, size),
    'mlp.up_proj': (wide, size),
    'mlp.down_proj': (size, wide),
  }
  shapes = {
    f'model.layers.{i}.{name}.weight': shape
    for i in range(config['num_hidden_layers'])
    for name, shape in layer.items()
  }
  shapes['model.embed_tokens.weight'] = (config['vocab_size'], size)
  shapes['model.norm.weight'] = (size,)
  if not config['tie_word_embeddings']:
    shapes['lm_head.weight'] = (config['vocab_size'], size)
  draw = lambda shape: rng.normal(0.3, 0.3, shape).astype(np.float32)
  return {name: draw(shape) for name, shape in shapes.items()}


def _checkpoint(config=CONFIG, **changes):
  """A checkpoint with some tensors replaced; None removes one."""
  tensors = _tensors(config)
  for name, tensor in changes.items():
    tensors.pop(name, None)
    if tensor is not None:
      tensors[name] = tensor
  return checkpoints.Checkpoint(config, tensors, toy_text.toy_tokenizer(), 'tiny')


def _numpy_logits(config, w, tokens):
  """A Llama in float64 numpy, one row, no cache, written for reading."""
  w = {name: tensor.astype(np.float64) for name, tensor in w.items()}
  norm = lambda x, scale: (
    x / np.sqrt(np.mean(x**2, -1, keepdims=True) + config['rms_norm_eps']) * scale
  )
  dim, half = config['head_dim'], config['head_dim'] // 2
  angle = np.outer(
    np.arange(len(tokens)), config['rope_theta'] ** (-np.arange(half) / half)
  )
  turn = np.exp(1j * angle)

  def heads(x):
    x = x.reshape(len(tokens), -1, dim).transpose(1, 0, 2)
    return x

  def rope(x):
    z = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate([z.real, z.imag], -1)

  x = w['model.embed_tokens.weight'][tokens]
  for i in range(config['num_hidden_layers']):
    get = lambda name, i=i: w[f'model.layers.{i}.{name}.weight']
    h = norm(x, get('input_layernorm'))
    q, k, v = (heads(h @ get(f'self_attn.{n}_proj').T) for n in 'qkv')
    groups = len(q) // len(k)
    k, v = np.repeat(rope(k), groups, 0), np.repeat(v, groups, 0)
    scores = rope(q) @ k.transpose(0, 2, 1) / np.sqrt(dim)
    scores[
      :, np.triu_indices(len(tokens), 1)[0], np.triu_indices(len(tokens), 1)[1]
    ] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed = (weights @ v).transpose(1, 0, 2).reshape(len(tokens), -1)
    x = x + mixed @ get('self_attn.o_proj').T
    h = norm(x, get('post_attention_layernorm'))
    gate = h @ get('mlp.gate_proj').T
    x = (
      x
      + (gate / (1 + np.exp(-gate)) * (h @ get('mlp.up_proj').T))
      @ get('mlp.down_proj').T
    )
  head = w.get('lm_head.weight', w['model.embed_tokens.weight'])
  return norm(x, w['model.norm.weight']) @ head.T


@pytest.mark.parametrize('tied', [False, True])
def test_logits_equal_a_plain_numpy_llama(tied):
  config = CONFIG | {'tie_word_embeddings': tied}
  checkpoint = _checkpoint(config)
  target, params = from_checkpoint.build(checkpoint)
  tokens = np.random.default_rng(1).integers(0, 50, 21)
  ours = target(
    params,
    jnp.array(tokens)[None],
    jnp.arange(21)[None],
    target.init_cache(1, 32),
    slots=jnp.zeros(1, jnp.int32),
    ancestors=None,
    logits_at=None,
    features_at=(),
  ).logits[0]
  theirs = _numpy_logits(config, checkpoint.tensors, tokens)
  np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


BAD_TENSORS = {
  'missing': ({Q_PROJ: None}, f'1 tensors missing .{Q_PROJ}.'),
  'unused': ({'model.layers.7.x.weight': np.ones(3)}, r'1 unused .model\.layers\.7\.x'),
  'mis-shaped': (
    {Q_PROJ: np.ones((24, 48), np.float32)},
    rf'{Q_PROJ} has shape \(24, 48\), the config asks for \(48, 24\)',
  ),
  'not finite': (
    {Q_PROJ: np.full((48, 24), np.nan, np.float32)},
    f'{Q_PROJ} holds numbers that are not finite',
  ),
}


@pytest.mark.parametrize('changes, message', BAD_TENSORS.values(), ids=BAD_TENSORS)
def test_a_tensor_that_does_not_fit_is_named(changes, message):
  with pytest.raises(ValueError, match=message):
    from_checkpoint.build(_checkpoint(**changes))


def test_buffers_and_a_second_copy_of_a_tied_head_are_not_unused():
  config = CONFIG | {'tie_word_embeddings': True}
  buffers = {
    'model.layers.0.self_attn.rotary_emb.inv_freq': np.ones(4),
    'lm_head.weight': np.ones((50, 24)),
  }
  from_checkpoint.build(_checkpoint(config, **buffers))


BAD_CONFIGS = {
  'unknown family': ({'model_type': 'mamba'}, "'mamba' is not supported; known: llama"),
  'activation': ({'hidden_act': 'gelu'}, "hidden_act = 'gelu' is not supported"),
  'bias': ({'attention_bias': True}, 'attention_bias = True is not supported'),
  'heads': ({'num_key_value_heads': 4}, '6 query heads cannot share 4 key-value'),
  'rope scaling': ({'rope_scaling': {'rope_type': 'yarn'}}, 'rope scaling .*yarn'),
}


@pytest.mark.parametrize('changes, message', BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_an_unsupported_config_is_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    from_checkpoint.parse_config(CONFIG | changes)


def test_a_config_without_a_shape_is_refused():
  config = {key: value for key, value in CONFIG.items() if key != 'hidden_size'}
  with pytest.raises(ValueError, match='config.json lacks hidden_size'):
    from_checkpoint.parse_config(config)


def test_config_defaults_are_those_of_hugging_face():
  bare = {
    key: value
    for key, value in CONFIG.items()
    if key not in ('head_dim', 'num_key_value_heads', 'rope_theta', 'hidden_act')
  }
  cfg = from_checkpoint.parse_config(bare)
  assert (cfg.head_dim, cfg.num_kv_heads, cfg.rope_theta) == (4, 6, 10000.0)
  nested = bare | {'rope_parameters': {'rope_type': 'default', 'rope_theta': 5e5}}
  assert from_checkpoint.parse_config(nested) == dataclasses.replace(
    cfg, rope_theta=500000.0
  )
