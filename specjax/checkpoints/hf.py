"""Hugging Face checkpoints: a local directory or a hub id, safetensors weights."""

import functools
import json
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import huggingface_hub
import ml_dtypes  # noqa: F401 (makes numpy know bfloat16, which safetensors asks for)
import numpy as np
import safetensors
import tokenizers

from specjax import text
from specjax.checkpoints import checkpoint

INDEX = 'model.safetensors.index.json'
HUB_ID = re.compile(r'[\w.-]+/[\w.-]+')
# Not '*.safetensors': some repositories hold a second copy in another layout.
HUB_FILES = ['*.json', '*.jinja', 'model*.safetensors', 'tokenizer.model']

Readers = dict[str, Callable[[], np.ndarray]]


def load_directory(source: str | pathlib.Path) -> checkpoint.Checkpoint:
  """Opens a Hugging Face model directory, or a hub id such as 'org/name'.

  A hub id is downloaded into, or without a network read from, huggingface_hub's
  cache. Tensors are read when asked for, in their stored dtype.

  Raises FileNotFoundError if the directory or a file in it is missing, ValueError if
  a file cannot be read or the files contradict each other.
  """
  directory, label = _resolve(str(source))
  if not (directory / 'config.json').is_file():
    raise FileNotFoundError(
      f'{directory} holds no config.json, so it is not a Hugging Face model directory: '
      'give the directory that save_pretrained() wrote.'
    )
  config = _read_json(directory / 'config.json')
  return checkpoint.Checkpoint(
    config=config,
    tensors=checkpoint.LazyTensors(_readers(directory)),
    tokenizer=_tokenizer(directory, config),
    label=label,
  )


def _resolve(source: str) -> tuple[pathlib.Path, str]:
  """The directory of a path or hub id, and the label of its weights."""
  directory = pathlib.Path(source).expanduser()
  if directory.is_dir():
    return directory, directory.resolve().name
  if not HUB_ID.fullmatch(source):
    raise FileNotFoundError(
      f'{source} is not a directory, nor a hub id of the form org/name: check the path.'
    )
  try:
    snapshot = huggingface_hub.snapshot_download(source, allow_patterns=HUB_FILES)
  except Exception as error:  # the network, the hub's answer or the cache may fail
    raise FileNotFoundError(
      f'{source} is not a directory here, and as a hub id it could not be fetched nor '
      f'found in the local cache ({type(error).__name__}: {error}). Check the spelling '
      f'and the network, or download it elsewhere (hf download {source}) and give the '
      'directory.'
    ) from error
  directory = pathlib.Path(snapshot)
  return directory, f'{source}@{directory.name[:7]}'


def _readers(directory: pathlib.Path) -> Readers:
  """A function for each tensor that reads it, from one file or from shards."""
  single, index = directory / 'model.safetensors', directory / INDEX
  if single.is_file():
    return _shard_readers(single)
  if index.is_file():
    return _sharded_readers(index)
  others = sorted(path.name for path in directory.glob('*.bin')) or 'no .bin file'
  raise FileNotFoundError(
    f'{directory} holds no weights specjax reads (model.safetensors or {INDEX}), but '
    f'{others}. Convert PyTorch weights once with transformers: '
    'AutoModelForCausalLM.from_pretrained(path).save_pretrained(path).'
  )


def _sharded_readers(index: pathlib.Path) -> Readers:
  weight_map = _read_json(index).get('weight_map')
  if not isinstance(weight_map, dict):
    raise ValueError(f'{index} has no "weight_map" of tensors to files: get it again.')
  shards = {}
  for name in sorted(set(weight_map.values())):
    path = index.parent / name
    if not path.is_file():
      raise FileNotFoundError(
        f'{index.name} names the shard {name}, which is not in {index.parent}: the '
        'download is incomplete, get that file again.'
      )
    shards[name] = _shard_readers(path)
  absent = sorted(
    name for name, shard in weight_map.items() if name not in shards[shard]
  )
  if absent:
    raise ValueError(
      f'{index} places {absent[0]} in {weight_map[absent[0]]}, which does not hold it '
      f'({len(absent)} such tensors): the index and the shards are from different '
      'downloads, get them all again.'
    )
  return {name: shards[shard][name] for name, shard in weight_map.items()}


def _shard_readers(path: pathlib.Path) -> Readers:
  try:
    file = safetensors.safe_open(path, framework='numpy')
  except (safetensors.SafetensorError, OSError) as error:
    raise ValueError(
      f'{path} is not a whole safetensors file ({path.stat().st_size} bytes; {error}): '
      'the download was cut short, or it is a Git LFS pointer. Get it again.'
    ) from error
  for name in file.keys():
    dtype = file.get_slice(name).get_dtype()
    if dtype == 'F4' or dtype.startswith(('F6_', 'F8_')):
      raise ValueError(
        f'{path} stores {name} quantised as {dtype}: specjax reads float64, float32, '
        'float16 and bfloat16 weights. Use the unquantised checkpoint.'
      )
  return {name: functools.partial(file.get_tensor, name) for name in file.keys()}


def _tokenizer(
  directory: pathlib.Path, config: Mapping[str, Any]
) -> text.Tokenizer | None:
  path = directory / 'tokenizer.json'
  if not path.is_file():
    if (directory / 'tokenizer.model').is_file():
      raise FileNotFoundError(
        f'{directory} holds a SentencePiece tokenizer.model but no tokenizer.json: '
        'convert it once with transformers: '
        'AutoTokenizer.from_pretrained(path).save_pretrained(path).'
      )
    return None
  try:
    backend = tokenizers.Tokenizer.from_file(str(path))
  except Exception as error:  # tokenizers raises nothing more specific
    raise ValueError(f'{path} cannot be read ({error}): get it again.') from error
  backend.no_truncation()
  backend.no_padding()
  settings = _read_json_if_any(directory / 'tokenizer_config.json')
  special_tokens = _special_tokens(
    _read_json_if_any(directory / 'special_tokens_map.json') | settings
  )
  generation = _read_json_if_any(directory / 'generation_config.json')
  ends = [config.get('eos_token_id'), generation.get('eos_token_id')]
  if 'eos_token' in special_tokens:
    ends.append(backend.token_to_id(special_tokens['eos_token']))
  return text.Tokenizer(
    backend=backend,
    chat_template=_chat_template(directory, settings),
    special_tokens=special_tokens,
    stop_ids=_flat_ids(ends),
  )


def _special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
  """`bos_token` and the like; a value is a string, or a dict with its `content`."""
  tokens = {
    name: value['content'] if isinstance(value, dict) else value
    for name, value in settings.items()
    if name.endswith('_token')
  }
  return {name: token for name, token in tokens.items() if isinstance(token, str)}


def _flat_ids(ends: list[int | list[int] | None]) -> tuple[int, ...]:
  """Files give an end-of-sequence id as a number, a list of numbers, or null."""
  lists = [end if isinstance(end, list) else [end] for end in ends if end is not None]
  return tuple(sorted({token for tokens in lists for token in tokens}))


def _chat_template(directory: pathlib.Path, settings: Mapping[str, Any]) -> str | None:
  path = directory / 'chat_template.jinja'
  if path.is_file():
    return path.read_text(encoding='utf-8')
  template = settings.get('chat_template')
  if isinstance(template, list):  # several, by name
    named = {entry['name']: entry['template'] for entry in template}
    return named.get('default')
  return template


def _read_json_if_any(path: pathlib.Path) -> dict[str, Any]:
  return _read_json(path) if path.is_file() else {}


def _read_json(path: pathlib.Path) -> dict[str, Any]:
  try:
    return json.loads(path.read_text(encoding='utf-8'))
  except ValueError as error:
    raise ValueError(f'{path} is not valid JSON ({error}): get it again.') from error
