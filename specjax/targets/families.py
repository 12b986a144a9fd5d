"""The known families: what each reads from Hugging Face's config.json.

A function and the defaults of a family; whoever adds one adds it here and to FAMILIES.
The layers know no family, only what `config.TransformerConfig` says.
"""

import dataclasses
from collections.abc import Callable, Mapping

from specjax.targets import config_json as read
from specjax.targets.config import Experts, LayerConfig, TransformerConfig
from specjax.targets.config_json import FULL, SLIDING, Config


@dataclasses.dataclass(frozen=True)
class Family:
  """How the files of a family are read.

  Attributes:
    parse: config.json, defaults filled in, to a `TransformerConfig`.
    defaults: transformers' values of keys that a config.json may leave out.
    part: the key of config.json under which the language model stands; '': the top.
    prefix: what its tensors' names begin with.
    ignored: what the names of tensors that it has no use for begin with.
    names: how it names weights, where not as Llama does; see `from_checkpoint`.
    norm_offset: added to the stored scales of norms: Gemma's w means 1 + w.
  """

  parse: Callable[[Config], TransformerConfig]
  defaults: Config = dataclasses.field(default_factory=dict)
  part: str = ''
  prefix: str = ''
  ignored: tuple[str, ...] = ()
  names: Mapping[str, str] = dataclasses.field(default_factory=dict)
  norm_offset: float = 0.0


def family(config: Config) -> Family:
  """The family of a config.json, by its `model_type`."""
  kind = config.get('model_type')
  if kind not in FAMILIES:
    known = ', '.join(sorted(FAMILIES))
    raise ValueError(f'model_type {kind!r} is not supported; known: {known}')
  return FAMILIES[kind]


def parse_config(config: Config) -> TransformerConfig:
  """Reads Hugging Face's config.json.

  Raises:
    ValueError: the family, or one of its options, is not supported; a key is missing.
  """
  of = family(config)
  read.supported(config, quantization_config=None)
  if of.part and not isinstance(config.get(of.part), dict):
    raise ValueError(
      f'config.json lacks {of.part}, the language model of several parts'
    )
  part = dict(config[of.part]) if of.part else dict(config)
  if 'tie_word_embeddings' in config:
    part['tie_word_embeddings'] = config['tie_word_embeddings']
  part = {**of.defaults, **part}
  read.check_keys(part)
  return of.parse(part)


def _llama(config: Config) -> TransformerConfig:
  """Llama 1 to 3, TinyLlama, SmolLM2 and many more."""
  layers = read.layers(config, [FULL], read.rotation(config))
  return read.decoder(config, layers, mlp_bias=config.get('mlp_bias', False))


def _mistral(config: Config) -> TransformerConfig:
  """Mistral 7B (arXiv 2310.06825): a window in every layer; later versions: in none."""
  kind = FULL if config['sliding_window'] is None else SLIDING
  return read.decoder(config, read.layers(config, [kind], read.rotation(config)))


def _qwen2(config: Config) -> TransformerConfig:
  """Qwen2 and Qwen2.5 (arXiv 2412.15115): query, key and value have biases."""
  return read.decoder(config, _qwen_layers(config), qkv_bias=True, output_bias=False)


def _qwen3(config: Config) -> TransformerConfig:
  """Qwen3 (arXiv 2505.09388): a norm of each query and key head."""
  return read.decoder(config, _qwen_layers(config), qk_norm=True)


def _qwen_layers(config: Config) -> tuple[LayerConfig, ...]:
  """A window, if at all, from layer `max_window_layers` on."""
  count = config['num_hidden_layers']
  first = config['max_window_layers'] if config['use_sliding_window'] else count
  kinds = [SLIDING if depth >= first else FULL for depth in range(count)]
  return read.layers(config, kinds, read.rotation(config))


def _qwen3_moe(config: Config) -> TransformerConfig:
  """Qwen3 with experts, in all layers or in every so many."""
  experts = Experts(
    config.get('num_experts') or config['num_local_experts'],
    chosen=config['num_experts_per_tok'],
    size=config['moe_intermediate_size'],
    normalized=config['norm_topk_prob'],
  )
  if not 1 <= experts.chosen <= experts.count:
    raise ValueError(
      f'num_experts_per_tok = {experts.chosen} does not fit {experts.count} experts'
    )
  kind = SLIDING if config['use_sliding_window'] else FULL
  layers = list(read.layers(config, [kind], read.rotation(config)))
  dense, every = config['mlp_only_layers'] or (), config['decoder_sparse_step']
  for depth, layer in enumerate(layers):
    if depth not in dense and (depth + 1) % every == 0:
      layers[depth] = dataclasses.replace(layer, experts=experts)
  return read.decoder(config, tuple(layers), qk_norm=True)


def _gemma2(config: Config) -> TransformerConfig:
  """Gemma 2 (arXiv 2408.00118): every other layer sees a window, scores are capped."""
  layers = read.layers(config, [SLIDING, FULL], read.rotation(config))
  cap = config['attn_logit_softcapping']
  return _gemma(config, layers, attention_softcap=cap)


def _gemma3(config: Config) -> TransformerConfig:
  """Gemma 3 (arXiv 2503.19786): one layer in six sees all, and turns more slowly."""
  read.supported(config, attn_logit_softcapping=None)
  kinds = [SLIDING] * (config['sliding_window_pattern'] - 1) + [FULL]
  nested = config.get('rope_parameters') or {}
  if set(nested) - {FULL, SLIDING}:
    raise ValueError(
      f'rope_parameters of {", ".join(sorted(nested))} are not supported, '
      f'only of {FULL} and {SLIDING}'
    )
  scaling = (nested.get(FULL) or {}) | (config.get('rope_scaling') or {})
  whole = read.stretched(config, scaling, config['rope_theta'])
  theta = config['rope_local_base_freq']
  local = read.stretched(config, nested.get(SLIDING) or {}, theta)
  return _gemma(config, read.layers(config, kinds, whole, local), qk_norm=True)


def _gemma(
  config: Config, layers: tuple[LayerConfig, ...], **more
) -> TransformerConfig:
  """What both have: norms before and after, a scaled embedding, GeGLU."""
  read.supported(config, use_bidirectional_attention=False)
  return read.decoder(
    config,
    layers,
    activation_key='hidden_activation',
    post_norms=True,
    query_scale=config['query_pre_attn_scalar'] ** -0.5,
    embedding_scale=config['hidden_size'] ** 0.5,
    logit_softcap=config['final_logit_softcapping'],
    **more,
  )


_MISTRAL = dict(num_key_value_heads=8, sliding_window=4096)
_QWEN = dict(
  num_key_value_heads=32,
  sliding_window=4096,
  use_sliding_window=False,
  max_window_layers=28,
)
_QWEN_MOE = _QWEN | dict(
  num_key_value_heads=4,
  num_local_experts=128,
  num_experts_per_tok=8,
  moe_intermediate_size=768,
  norm_topk_prob=False,
  mlp_only_layers=(),
  decoder_sparse_step=1,
)
_GEMMA2 = dict(
  num_key_value_heads=4,
  head_dim=256,
  hidden_activation='gelu_pytorch_tanh',
  query_pre_attn_scalar=256,
  sliding_window=4096,
  attn_logit_softcapping=50.0,
  final_logit_softcapping=30.0,
  tie_word_embeddings=True,
)
_GEMMA3 = _GEMMA2 | dict(
  vocab_size=262208,
  num_attention_heads=8,
  max_position_embeddings=131072,
  rms_norm_eps=1e-6,
  attn_logit_softcapping=None,
  final_logit_softcapping=None,
  sliding_window_pattern=6,
  rope_theta=1e6,
  rope_local_base_freq=1e4,
)
_GEMMA_NAMES = {
  'attention_post_norm.scale': 'post_attention_layernorm.weight',
  'mlp_norm.scale': 'pre_feedforward_layernorm.weight',
  'mlp_post_norm.scale': 'post_feedforward_layernorm.weight',
}
_GEMMA3_TEXT = Family(_gemma3, _GEMMA3, names=_GEMMA_NAMES, norm_offset=1.0)
FAMILIES = {
  'llama': Family(_llama),
  'mistral': Family(_mistral, _MISTRAL),
  'qwen2': Family(_qwen2, _QWEN),
  'qwen3': Family(_qwen3, _QWEN | dict(head_dim=128)),
  'qwen3_moe': Family(_qwen3_moe, _QWEN_MOE),
  'gemma2': Family(_gemma2, _GEMMA2, names=_GEMMA_NAMES, norm_offset=1.0),
  'gemma3_text': _GEMMA3_TEXT,
  'gemma3': dataclasses.replace(  # the one that also sees images: its text part
    _GEMMA3_TEXT,
    part='text_config',
    prefix='language_model.',
    ignored=('vision_tower.', 'multi_modal_projector.'),
  ),
}
