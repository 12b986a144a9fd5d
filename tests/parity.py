"""Tiny random models of each family, by transformers and loaded by specjax."""

import contextlib
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import checkpoints
from specjax.targets import from_checkpoint

NEEDED = 'parity is tested against transformers: pip install torch transformers'
torch = pytest.importorskip('torch', reason=NEEDED)
transformers = pytest.importorskip('transformers', reason=NEEDED)

WINDOW = 7
COMMON = dict(
  vocab_size=259,
  hidden_size=32,
  intermediate_size=48,
  num_hidden_layers=2,
  num_attention_heads=4,
  num_key_value_heads=2,
  max_position_embeddings=1024,
  tie_word_embeddings=False,
  pad_token_id=None,
)
GEMMA = dict(
  head_dim=16,
  sliding_window=WINDOW,
  query_pre_attn_scalar=24,
  layer_types=['sliding_attention', 'full_attention'],
  tie_word_embeddings=True,
)
GEMMA3 = GEMMA | dict(
  final_logit_softcapping=None,
  rope_parameters={
    'full_attention': dict(rope_type='linear', factor=8.0, rope_theta=1e6),
    'sliding_attention': dict(rope_type='default', rope_theta=1e4),
  },
)
VISION = dict(
  hidden_size=16,
  intermediate_size=16,
  num_hidden_layers=1,
  num_attention_heads=2,
  image_size=28,
  patch_size=14,
)
# Name: (transformers' name of the family, what its config says beyond COMMON).
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
  'llama': ('Llama', dict(attention_bias=True, mlp_bias=True)),
  'mistral': ('Mistral', dict(head_dim=16, sliding_window=WINDOW)),
  'qwen2': (
    'Qwen2',
    dict(
      use_sliding_window=True,
      sliding_window=WINDOW,
      max_window_layers=1,
      tie_word_embeddings=True,
    ),
  ),
  'qwen3': ('Qwen3', dict(head_dim=16)),
  'qwen3_moe': (
    'Qwen3Moe',
    dict(
      head_dim=16,
      num_experts=5,
      num_experts_per_tok=2,
      moe_intermediate_size=24,
      mlp_only_layers=[1],
      norm_topk_prob=True,
      use_sliding_window=True,
      sliding_window=WINDOW,
    ),
  ),
  'gemma2': (
    'Gemma2',
    GEMMA | dict(attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
  ),
  'gemma3_text': ('Gemma3Text', GEMMA3),
  'gemma3': ('Gemma3', GEMMA3),
}
YARN = dict(rope_type='yarn', factor=16.0, original_max_position_embeddings=64)
STRETCHED: dict[str, dict[str, Any]] = {
  'default': dict(rope_type='default'),
  'linear': dict(rope_type='linear', factor=8.0),
  'llama3': dict(
    rope_type='llama3',
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=128,
  ),
  'yarn': YARN,
  'yarn, mscale': YARN
  | dict(mscale=1.2, mscale_all_dim=0.7, beta_fast=16.0, beta_slow=2.0, truncate=False),
  'yarn, attention factor': YARN | dict(attention_factor=1.3),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Pair:
  """One model as transformers and as specjax computes it."""

  exact: bool
  theirs: Any
  target: Any
  params: Any

  def hugging_face(self, tokens, mask=None, positions=None) -> list[np.ndarray]:
    """Logits, then hidden states before each layer; float[B, T, ...]."""
    tokens = np.asarray(tokens)
    mask = np.ones_like(tokens) if mask is None else mask
    if positions is None:
      positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    with torch.no_grad(), float64(self.exact):
      out = self.theirs(
        torch.tensor(tokens),
        attention_mask=torch.tensor(mask),
        position_ids=torch.tensor(positions),
        output_hidden_states=True,
      )
    return [out.logits.numpy(), *(x.numpy() for x in out.hidden_states[:-1])]

  def score(self, tokens, cache, slots, positions=None):
    """Our TargetOutput of a window int32[B, T] at slots int32[B], with all features."""
    tokens = jnp.asarray(tokens)
    if positions is None:
      positions = jnp.asarray(slots)[:, None] + jnp.arange(tokens.shape[1])
    with jax.enable_x64(self.exact):
      return _score(
        self.target, self.params, tokens, jnp.asarray(positions), cache, slots
      )

  def cache(self, batch: int, slots: int):
    with jax.enable_x64(self.exact):
      return self.target.init_cache(batch, slots)


@functools.partial(jax.jit, static_argnums=0)
def _score(target, params, tokens, positions, cache, slots):
  return target(
    params,
    tokens,
    positions,
    cache,
    slots=slots,
    ancestors=None,
    logits_at=None,
    features_at=tuple(range(target.cfg.num_layers)),
  )


@contextlib.contextmanager
def float64(exact: bool):
  """If exact, float32 means float64: a double model keeps it for norms and the like."""
  if not exact:
    yield
    return
  before = torch.get_default_dtype()
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(torch, 'float', torch.float64)
    patch.setattr(torch, 'float32', torch.float64)
    patch.setattr(torch.Tensor, 'float', torch.Tensor.double)
    torch.set_default_dtype(torch.float64)
    try:
      yield
    finally:
      torch.set_default_dtype(before)


def save(directory, name: str, settings: dict[str, Any]) -> None:
  """Writes a model of a family with random weights, norms and biases among them."""
  settings = COMMON | settings
  if name == 'Gemma3':
    settings = {'text_config': settings, 'vision_config': VISION}
  config = getattr(transformers, f'{name}Config')(**settings)
  model = _class(name)(config).double()
  generator = torch.Generator().manual_seed(0)
  with torch.no_grad():
    for x in model.parameters():
      draw = torch.randn(x.shape, generator=generator, dtype=torch.float64)
      if x.dim() > 1:
        x.copy_(draw * 2 * x.shape[-1] ** -0.5)
      else:  # biases, and norms, which are ones or, in Gemma, offsets from one
        x.add_(draw * 0.3)
  model.save_pretrained(directory)


def load(directory, name: str, exact: bool) -> Pair:
  """The model on both sides, in float64 throughout or in float32."""
  with float64(exact):
    theirs = _class(name).from_pretrained(
      directory,
      dtype=torch.float64 if exact else torch.float32,
      attn_implementation='eager',
      experts_implementation='eager',
    )
  with jax.enable_x64(exact):
    target, params = from_checkpoint.build(checkpoints.load_directory(directory))
  return Pair(exact, theirs.eval(), target, params)


def _class(name: str):
  special = {'Gemma3Text': 'Gemma3', 'Gemma3': 'Gemma3ForConditionalGeneration'}
  name = special.get(name, name)
  return getattr(transformers, name if 'For' in name else f'{name}ForCausalLM')


def error(ours, theirs) -> float:
  """The largest difference, relative to the largest number."""
  theirs = np.asarray(theirs, np.float64)
  return float(
    np.abs(np.asarray(ours, np.float64) - theirs).max() / np.abs(theirs).max()
  )
