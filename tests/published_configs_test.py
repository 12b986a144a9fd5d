"""Targets described by published checkpoints' config.json; no weight is allocated."""

import math

import jax
import jax.numpy as jnp
import pytest

from specjax.targets import from_checkpoint, transformer
from specjax.targets.config import Experts
from specjax.targets.rope import Rope
from tests import published_configs
from tests.published_configs import CHECKPOINTS, Published

LLAMA3 = dict(kind='llama3', trained=8192, slow=1.0, fast=4.0)
LOCAL, GLOBAL = Rope(10000.0), Rope(1000000.0)
# What a config.json says, and what follows from what it does not say.
FACTS = {
  'meta-llama/Llama-3.1-8B-Instruct': dict(
    max_positions=131072, head_dim=128, rope=Rope(500000.0, factor=8.0, **LLAMA3)
  ),
  'meta-llama/Llama-3.2-1B': dict(
    max_positions=131072,
    head_dim=64,
    rope=Rope(500000.0, factor=32.0, **LLAMA3),
    tied=True,
  ),
  'meta-llama/Llama-2-7b-hf': dict(  # no rope_theta, no bias keys
    max_positions=4096, head_dim=128, rope=Rope(10000.0), num_kv_heads=32
  ),
  'TinyLlama/TinyLlama-1.1B-Chat-v1.0': dict(
    max_positions=2048, head_dim=64, rope=Rope(10000.0), num_kv_heads=4
  ),
  'HuggingFaceTB/SmolLM2-135M-Instruct': dict(
    max_positions=8192, head_dim=64, rope=Rope(100000.0), tied=True
  ),
  'mistralai/Mistral-7B-v0.1': dict(
    max_positions=32768, head_dim=128, rope=Rope(10000.0), windows=[4096] * 32
  ),
  'mistralai/Mistral-7B-Instruct-v0.3': dict(
    max_positions=32768, head_dim=128, rope=Rope(1000000.0)
  ),
  'Qwen/Qwen2.5-0.5B-Instruct': dict(  # sliding_window is set, but not in use
    max_positions=32768,
    head_dim=64,
    rope=Rope(1000000.0),
    norm_eps=1e-6,
    tied=True,
    qkv_bias=True,
  ),
  'Qwen/Qwen2.5-7B-Instruct': dict(
    max_positions=32768,
    head_dim=128,
    rope=Rope(1000000.0),
    norm_eps=1e-6,
    qkv_bias=True,
  ),
  'Qwen/Qwen3-0.6B': dict(  # head_dim is not 1024 / 16
    max_positions=40960,
    head_dim=128,
    rope=Rope(1000000.0),
    norm_eps=1e-6,
    tied=True,
    qk_norm=True,
  ),
  'Qwen/Qwen3-8B': dict(
    max_positions=40960,
    head_dim=128,
    rope=Rope(1000000.0),
    norm_eps=1e-6,
    qk_norm=True,
  ),
  'Qwen/Qwen3-30B-A3B': dict(  # head_dim is not 2048 / 32
    max_positions=40960,
    head_dim=128,
    rope=Rope(1000000.0),
    norm_eps=1e-6,
    qk_norm=True,
    experts=Experts(128, chosen=8, size=768, normalized=True),
  ),
  'google/gemma-2-2b': dict(  # no tie_word_embeddings; head_dim is not 2304 / 8
    max_positions=8192,
    head_dim=256,
    rope=Rope(10000.0),
    windows=[4096, None] * 13,
    embedding_scale=48.0,
    attention_softcap=50.0,
    logit_softcap=30.0,
  ),
  'google/gemma-2-9b': dict(
    max_positions=8192,
    head_dim=256,
    rope=Rope(10000.0),
    windows=[4096, None] * 21,
    embedding_scale=math.sqrt(3584),
    attention_softcap=50.0,
    logit_softcap=30.0,
  ),
  'google/gemma-3-1b-it': dict(  # every sixth layer sees all, and turns more slowly
    max_positions=32768,
    head_dim=256,
    windows=([512] * 5 + [None]) * 4 + [512] * 2,
    ropes=([LOCAL] * 5 + [GLOBAL]) * 4 + [LOCAL] * 2,
    embedding_scale=math.sqrt(1152),
    qk_norm=True,
  ),
}
LLAMA = dict(
  norm_eps=1e-5,
  tied=False,
  activation='silu',
  qkv_bias=False,
  output_bias=False,
  mlp_bias=False,
  qk_norm=False,
  post_norms=False,
  embedding_scale=1.0,
  attention_softcap=None,
  logit_softcap=None,
)
GEMMA = LLAMA | dict(
  norm_eps=1e-6,
  tied=True,
  activation='gelu_pytorch_tanh',
  post_norms=True,
  query_scale=1 / 16,
)


@pytest.fixture(scope='module', params=CHECKPOINTS)
def name(request) -> str:
  return request.param


@pytest.fixture(scope='module')
def published(name) -> Published:
  return CHECKPOINTS[name]


@pytest.fixture(scope='module')
def model(published):
  return transformer.abstract(from_checkpoint.parse_config(published.config))


@pytest.fixture(scope='module')
def shapes(published) -> dict[str, tuple[int, ...]]:
  return from_checkpoint.tensor_shapes(published.config)


def test_as_many_parameters_as_published(model, published):
  weights = jax.tree.leaves(model[1])
  assert all(isinstance(weight, jax.ShapeDtypeStruct) for weight in weights)
  assert sum(weight.size for weight in weights) == published.parameters


def test_the_tensors_of_the_index(shapes, published):
  assert set(shapes) == published_configs.tensor_names(published.config)
  assert len(shapes) == published.tensors
  assert sum(map(math.prod, shapes.values())) == published.parameters


def test_their_shapes(shapes, published):
  assert {name: shapes.get(name) for name in published.shapes} == published.shapes


def test_what_config_json_means(model, name):
  cfg = model[0].cfg
  facts = dict(FACTS[name])
  layers = [cfg.layer(depth) for depth in range(cfg.num_layers)]
  every = lambda value: [value] * cfg.num_layers
  windows = facts.pop('windows', every(None))
  ropes = facts.pop('ropes', None) or every(facts.pop('rope'))
  experts = every(facts.pop('experts', None))
  assert [layer.sliding_window for layer in layers] == windows
  assert [layer.rope for layer in layers] == ropes
  assert [layer.experts for layer in layers] == experts
  expected = (GEMMA if 'gemma' in name else LLAMA) | facts
  assert {key: getattr(cfg, key) for key in expected} == expected


def test_a_window_of_five_is_scored(model, published):
  target, params = model
  rows = jax.ShapeDtypeStruct((1, 5), jnp.int32)
  cache = jax.eval_shape(lambda: target.init_cache(1, 16))
  where = dict(slots=jnp.zeros(1, jnp.int32), ancestors=None, logits_at=None)
  score = lambda *given: target(*given, features_at=(), **where)
  out = jax.eval_shape(score, params, rows, rows, cache)
  assert out.logits.shape == (1, 5, published.config['vocab_size'])
  assert jax.tree.map(jnp.shape, out.cache) == jax.tree.map(jnp.shape, cache)
