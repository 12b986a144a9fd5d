"""Hugging Face directories and hub ids: what is read, and what is refused."""

import json
import pathlib
import shutil

import ml_dtypes
import numpy as np
import pytest
from huggingface_hub import constants
from safetensors import numpy as safetensors_numpy

from specjax import checkpoints
from specjax.testing import toy_text

CONFIG = {'model_type': 'llama', 'vocab_size': 259, 'eos_token_id': [7, 258]}


def some_tensors() -> dict[str, np.ndarray]:
  rng = np.random.default_rng(0)
  shapes = {
    'model.embed.weight': (259, 8),
    'model.norm.weight': (8,),
    'lm_head': (4, 2),
  }
  return {name: rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}


def write_directory(
  path: pathlib.Path, tensors: dict[str, np.ndarray], shards: int = 0
) -> pathlib.Path:
  """Writes what save_pretrained() writes, in one file or in shards."""
  path.mkdir(parents=True, exist_ok=True)
  write_json(path / 'config.json', CONFIG)
  write_json(path / 'generation_config.json', {'eos_token_id': 5})
  write_json(
    path / 'tokenizer_config.json',
    {
      'add_bos_token': True,
      'bos_token': {'content': '<|start|>', 'special': True},
      'eos_token': '<|end|>',
      'pad_token': None,
    },
  )
  (path / 'chat_template.jinja').write_text('{{ bos_token }}{{ messages[0].content }}')
  toy_text.toy_tokenizer().backend.save(str(path / 'tokenizer.json'))
  if not shards:
    safetensors_numpy.save_file(tensors, path / 'model.safetensors')
    return path
  names = list(tensors)
  weight_map = {}
  for shard in range(shards):
    file = f'model-{shard + 1:05}-of-{shards:05}.safetensors'
    part = {name: tensors[name] for name in names[shard::shards]}
    safetensors_numpy.save_file(part, path / file)
    weight_map |= dict.fromkeys(part, file)
  write_json(path / 'model.safetensors.index.json', {'weight_map': weight_map})
  return path


def write_json(path: pathlib.Path, content) -> None:
  path.write_text(json.dumps(content))


def assert_same_tensors(found, expected):
  assert set(found) == set(expected)
  for name, tensor in found.items():
    assert tensor.dtype == expected[name].dtype
    np.testing.assert_array_equal(tensor, expected[name], err_msg=name)


@pytest.fixture
def directory(tmp_path):
  return write_directory(tmp_path / 'tiny', some_tensors())


@pytest.fixture
def sharded(tmp_path):
  return write_directory(tmp_path / 'sharded', some_tensors(), shards=3)


class TestDirectory:
  @pytest.mark.parametrize('shards', [0, 3])
  @pytest.mark.parametrize(
    'dtype', [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
  )
  def test_tensors_keep_names_values_and_dtype(self, tmp_path, shards, dtype):
    tensors = {name: t.astype(dtype) for name, t in some_tensors().items()}
    loaded = checkpoints.load_directory(write_directory(tmp_path, tensors, shards))
    assert_same_tensors(loaded.tensors, tensors)
    assert loaded.config == CONFIG

  def test_tensors_are_a_mapping_read_on_demand(self, directory):
    tensors = checkpoints.load_directory(directory).tensors
    assert len(tensors) == len(some_tensors())
    assert 'model.norm.weight' in tensors and 'model.norm.bias' not in tensors
    assert tensors['model.norm.weight'] is not tensors['model.norm.weight']
    with pytest.raises(KeyError):
      tensors['model.norm.bias']

  def test_tokenizer_knows_its_chat_and_all_stops(self, directory):
    loaded = checkpoints.load_directory(directory)
    tokenizer = loaded.tokenizer
    assert loaded.label == 'tiny'
    assert tokenizer.stop_ids == (5, 7, toy_text.END, 258)
    assert tokenizer.special_tokens == {
      'bos_token': '<|start|>',
      'eos_token': '<|end|>',
    }
    chat = [{'role': 'user', 'content': 'hi'}]
    assert tokenizer.chat(chat) == [toy_text.START, *b'hi']

  @pytest.mark.parametrize('several', [True, False])
  def test_chat_template_inside_the_tokenizer_config(self, directory, several):
    (directory / 'chat_template.jinja').unlink()
    named = [{'name': 'tool', 'template': 'b'}, {'name': 'default', 'template': 'a'}]
    template = named if several else 'a'
    write_json(directory / 'tokenizer_config.json', {'chat_template': template})
    assert checkpoints.load_directory(directory).tokenizer.chat([]) == [ord('a')]

  def test_truncation_saved_with_a_tokenizer_is_dropped(self, directory):
    backend = toy_text.toy_tokenizer().backend
    backend.enable_truncation(2)
    backend.enable_padding(length=9)
    backend.save(str(directory / 'tokenizer.json'))
    assert checkpoints.load_directory(directory).tokenizer.encode('abcd') == [*b'abcd']

  def test_no_tokenizer(self, directory):
    (directory / 'tokenizer.json').unlink()
    assert checkpoints.load_directory(directory).tokenizer is None

  def test_written_by_transformers(self, tmp_path):
    reason = 'reading what transformers writes needs transformers and torch'
    torch = pytest.importorskip('torch', reason=reason)
    transformers = pytest.importorskip('transformers', reason=reason)
    config = transformers.LlamaConfig(
      vocab_size=259,
      hidden_size=32,
      intermediate_size=64,
      num_hidden_layers=2,
      num_attention_heads=4,
      num_key_value_heads=2,
      eos_token_id=toy_text.END,
    )
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(tmp_path, max_shard_size='20KB')
    toy = toy_text.toy_tokenizer()
    transformers.PreTrainedTokenizerFast(
      tokenizer_object=toy.backend, eos_token='<|end|>', chat_template=toy.chat_template
    ).save_pretrained(tmp_path)
    loaded = checkpoints.load_directory(tmp_path)
    assert_same_tensors(
      loaded.tensors,
      {
        name: tensor.float().numpy().astype(ml_dtypes.bfloat16)
        for name, tensor in model.state_dict().items()
      },
    )
    chat = [{'role': 'user', 'content': 'hi'}]
    assert loaded.tokenizer.chat(chat) == toy.chat(chat)
    assert loaded.tokenizer.fingerprint == toy.fingerprint
    assert loaded.tokenizer.stop_ids == (toy_text.END,)


class TestDirectoryErrors:
  def refuses(self, path, error, *words):
    with pytest.raises(error) as caught:
      checkpoints.load_directory(path)
    for word in words:
      assert word in str(caught.value)

  def test_no_such_directory(self, tmp_path):
    self.refuses(tmp_path / 'absent', FileNotFoundError, 'absent', 'hub id')

  def test_missing_config(self, directory):
    (directory / 'config.json').unlink()
    self.refuses(directory, FileNotFoundError, str(directory), 'config.json')

  @pytest.mark.parametrize('name', ['config.json', 'generation_config.json'])
  def test_broken_json(self, directory, name):
    (directory / name).write_text('{"a": ')
    self.refuses(directory, ValueError, name, 'JSON')

  def test_no_weights(self, directory):
    (directory / 'model.safetensors').unlink()
    self.refuses(directory, FileNotFoundError, str(directory), 'no .bin file')

  def test_pytorch_weights_only(self, directory):
    (directory / 'model.safetensors').rename(directory / 'pytorch_model.bin')
    self.refuses(directory, FileNotFoundError, 'pytorch_model.bin', 'save_pretrained')

  @pytest.mark.parametrize('size', [0, 5, 200, -1])
  def test_truncated_weights(self, directory, size):
    path = directory / 'model.safetensors'
    path.write_bytes(path.read_bytes()[:size])
    self.refuses(directory, ValueError, str(path), 'cut short')

  def test_missing_shard(self, sharded):
    name = 'model-00002-of-00003.safetensors'
    (sharded / name).unlink()
    self.refuses(sharded, FileNotFoundError, name, str(sharded))

  def test_tensor_not_in_its_shard(self, sharded):
    path = sharded / 'model.safetensors.index.json'
    index = json.loads(path.read_text())
    index['weight_map']['model.extra'] = 'model-00002-of-00003.safetensors'
    write_json(path, index)
    self.refuses(sharded, ValueError, 'model.extra', 'model-00002-of-00003')

  def test_index_without_a_map(self, sharded):
    write_json(sharded / 'model.safetensors.index.json', {})
    self.refuses(sharded, ValueError, 'weight_map')

  def test_quantised_weights(self, directory):
    header = {'w': {'dtype': 'F8_E4M3', 'shape': [2], 'data_offsets': [0, 2]}}
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, 'little') + text + bytes(2)
    (directory / 'model.safetensors').write_bytes(content)
    self.refuses(directory, ValueError, 'F8_E4M3', 'unquantised')

  def test_sentencepiece_only(self, directory):
    (directory / 'tokenizer.json').rename(directory / 'tokenizer.model')
    self.refuses(directory, FileNotFoundError, 'tokenizer.model', 'save_pretrained')

  def test_broken_tokenizer(self, directory):
    (directory / 'tokenizer.json').write_text('{}')
    self.refuses(directory, ValueError, 'tokenizer.json', 'get it again')


class TestHubId:
  @pytest.fixture(autouse=True)
  def offline_cache(self, tmp_path, monkeypatch):
    self.cache = tmp_path / 'hub'
    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(self.cache))
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)

  def test_cached(self, directory):
    commit = '0123456789abcdef0123456789abcdef01234567'
    cached = self.cache / 'models--org--tiny'
    shutil.copytree(directory, cached / 'snapshots' / commit)
    (cached / 'refs').mkdir()
    (cached / 'refs' / 'main').write_text(commit)
    loaded = checkpoints.load_directory('org/tiny')
    assert loaded.label == 'org/tiny@0123456'
    assert_same_tensors(loaded.tensors, some_tensors())

  def test_unreachable(self):
    with pytest.raises(FileNotFoundError, match='hf download org/absent'):
      checkpoints.load_directory('org/absent')
