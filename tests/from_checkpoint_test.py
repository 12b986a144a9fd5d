"""Loading: parity with a plain numpy Llama, and every way a checkpoint can be wrong."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import checkpoints
from specjax.targets import config, from_checkpoint, rope
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
  settings = CONFIG | {'tie_word_embeddings': tied}
  checkpoint = _checkpoint(settings)
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
  theirs = _numpy_logits(settings, checkpoint.tensors, tokens)
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


def _rope(**parameters):
  return {'rope_scaling': parameters}


BAD_CONFIGS = {
  'unknown family': (
    {'model_type': 'mamba'},
    "'mamba' is not supported; known: gemma2, gemma3, gemma3_text, llama, mistral, "
    'qwen2, qwen3, qwen3_moe',
  ),
  'activation': (
    {'hidden_act': 'gelu'},
    "hidden_act = 'gelu' is not supported, only silu, gelu_pytorch_tanh",
  ),
  'gemma activation': (
    {'model_type': 'gemma2', 'hidden_activation': 'relu'},
    "hidden_activation = 'relu' is not supported",
  ),
  'quantised': (
    {'quantization_config': {'quant_method': 'gptq'}},
    "quantization_config = {'quant_method': 'gptq'} is not supported, only None",
  ),
  'both directions': (
    {'model_type': 'gemma2', 'use_bidirectional_attention': True},
    'use_bidirectional_attention = True is not supported, only False',
  ),
  'cap that transformers ignores': (
    {'model_type': 'gemma3_text', 'attn_logit_softcapping': 50.0},
    'attn_logit_softcapping = 50.0 is not supported',
  ),
  'heads': ({'num_key_value_heads': 4}, '6 query heads cannot share 4 key-value'),
  'odd heads': ({'head_dim': 7}, 'head_dim = 7 is odd'),
  'rope type': (
    _rope(rope_type='dynamic', factor=2.0),
    "rope_type = 'dynamic' is not supported, only default, linear, llama3, yarn",
  ),
  'rope type, old key': (_rope(type='longrope'), "rope_type = 'longrope' is not supp"),
  'rope without factor': (_rope(type='linear'), r"'linear' lacks \['factor'\]"),
  'rope key': (
    _rope(rope_type='default', mrope_section=[2, 2]),
    r"'default' lacks nothing and does not know \['mrope_section'\]",
  ),
  'part of a head': (_rope(partial_rotary_factor=0.5), 'partial_rotary_factor'),
  'rope by layer': (
    {'model_type': 'gemma3_text', 'rope_parameters': {'rope_type': 'default'}},
    'rope_parameters of rope_type are not supported',
  ),
  'layer kind': (
    {'model_type': 'qwen3', 'layer_types': ['full_attention', 'chunked_attention']},
    'layer_types = chunked_attention is not supported, only full_attention and sli',
  ),
  'layer count': (
    {'model_type': 'qwen3', 'layer_types': ['full_attention'] * 3},
    'layer_types names 3 layers of 2',
  ),
  'no window': (
    {'model_type': 'gemma2', 'sliding_window': None},
    'sliding_attention needs a sliding_window, which is None',
  ),
  'too few experts': (
    {'model_type': 'qwen3_moe', 'num_experts': 4, 'num_experts_per_tok': 5},
    'num_experts_per_tok = 5 does not fit 4 experts',
  ),
  'no language model': ({'model_type': 'gemma3'}, 'config.json lacks text_config'),
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
  assert (cfg.head_dim, cfg.num_kv_heads, cfg.tied) == (4, 6, False)
  assert {layer.rope for layer in cfg.layers} == {rope.Rope(10000.0)}
  nested = bare | {'rope_parameters': {'rope_type': 'default', 'rope_theta': 5e5}}
  layer = config.LayerConfig(rope=rope.Rope(500000.0))
  assert from_checkpoint.parse_config(nested) == dataclasses.replace(
    cfg, layers=(layer, layer)
  )


def test_a_stretched_rotation_in_old_and_new_keys():
  parsed = lambda **keys: from_checkpoint.parse_config(CONFIG | keys).layers[0].rope
  yarn = dict(factor=4.0, original_max_position_embeddings=32)
  want = rope.Rope(1e4, 'yarn', 4.0, 32, 1.0, 32.0, True, 0.1 * np.log(4) + 1)
  assert parsed(rope_scaling=yarn | {'type': 'yarn'}) == want
  assert parsed(rope_scaling=yarn | {'rope_type': 'yarn', 'type': 'yarn'}) == want
  assert parsed(rope_parameters=yarn | {'rope_type': 'yarn', 'rope_theta': 1e4}) == want
  short = {'rope_type': 'yarn', 'factor': 4.0}
  assert parsed(rope_scaling=short).trained == CONFIG['max_position_embeddings']
  assert parsed(rope_scaling=short, original_max_position_embeddings=9).trained == 9
  llama3 = dict(rope_type='llama3', factor=8, low_freq_factor=1, high_freq_factor=4)
  assert parsed(rope_scaling=llama3) == rope.Rope(1e4, 'llama3', 8.0, 128, 1.0, 4.0)


def test_what_the_published_files_of_gemma_3_leave_out():
  text = {'hidden_size': 16, 'intermediate_size': 32, 'num_hidden_layers': 7}
  scaling = {'rope_scaling': {'factor': 8.0, 'rope_type': 'linear'}}
  cfg = from_checkpoint.parse_config(
    {'model_type': 'gemma3', 'text_config': text | scaling | {'sliding_window': 1024}}
  )
  assert (cfg.vocab_size, cfg.num_heads, cfg.num_kv_heads) == (262208, 8, 4)
  assert (cfg.head_dim, cfg.max_positions, cfg.tied) == (256, 131072, True)
  assert (cfg.query_scale, cfg.embedding_scale) == (1 / 16, 4.0)
  assert [layer.sliding_window for layer in cfg.layers] == [1024] * 5 + [None, 1024]
  assert cfg.layers[0].rope == rope.Rope(10000.0)
  assert cfg.layers[5].rope == rope.Rope(1e6, 'linear', 8.0)


def test_windows_and_experts_are_where_config_json_puts_them():
  base = CONFIG | {'num_hidden_layers': 4}
  windows = lambda **more: [
    layer.sliding_window for layer in from_checkpoint.parse_config(base | more).layers
  ]
  qwen = dict(model_type='qwen2', sliding_window=9, max_window_layers=3)
  assert windows(**qwen) == [None] * 4
  assert windows(**qwen, use_sliding_window=True) == [None] * 3 + [9]
  assert windows(model_type='mistral') == [4096] * 4
  assert windows(model_type='mistral', sliding_window=None) == [None] * 4
  assert windows(model_type='gemma2', sliding_window=9) == [9, None, 9, None]
  three = dict(sliding_window=9, sliding_window_pattern=3)
  assert windows(model_type='gemma3_text', **three) == [9, 9, None, 9]
  moe = dict(model_type='qwen3_moe', num_experts=4, decoder_sparse_step=2)
  layers = from_checkpoint.parse_config(
    base | moe | dict(mlp_only_layers=[1], num_experts_per_tok=2)
  ).layers
  assert [layer.experts is None for layer in layers] == [True, True, True, False]
  assert layers[3].experts == config.Experts(4, 2, 768, normalized=False)


def test_tensor_shapes_are_those_of_the_checkpoint():
  shapes = {name: tensor.shape for name, tensor in _tensors().items()}
  assert from_checkpoint.tensor_shapes(CONFIG) == shapes


def test_weights_are_read_in_the_default_float():
  with jax.enable_x64(True):
    _, params = from_checkpoint.build(_checkpoint())
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {np.dtype('float64')}
