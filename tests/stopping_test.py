"""Stop strings: the automaton against `in`, and the bytes of tokens against decode."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models

from specjax import checkpoints, stopping, text
from specjax.testing import toy_text

SAMPLES = [
  'plain ASCII\n\twith  spaces ',
  'naïve café 你好，世界 мир नमस्ते สวัสดี',
  'family 👨‍👩‍👧‍👦 flag 🇺🇳 and a genuine \ufffd, NUL \x00',
]
RULES = [
  ['aab'],
  ['ab', 'abc', 'b'],
  ['abab', 'baba'],
  ['aaaa', 'ba', 'cab'],
  ['é', 'aé你'],
  ['你', '你你a', 'c'],
  [],
  ['b'],
]
# Tokens of several bytes; 'é' and '你' come whole, in parts, and with neighbours.
VOCABULARY = [
  *[b'', b'a', b'b', b'c', b'aa', b'ab', b'ba', b'aab', b'cabab', b'abcb'],
  *['é'.encode(), 'é'.encode()[:1], 'é'.encode()[1:], 'aé'.encode()],
  *['你'.encode(), '你'.encode()[:2], '你'.encode()[2:], '你你'.encode()[1:5]],
]
TOY = toy_text.toy_tokenizer()
WORDS = ['▁', 'a', 'b', '▁a', 'ab', '▁▁', 'é', '▁b']
REPLACE = decoders.Replace('▁', ' ')
FUSE, STRIP = decoders.Fuse(), decoders.Strip(' ', 1, 0)
LLAMA = decoders.Sequence([REPLACE, decoders.ByteFallback(), FUSE, STRIP])


def sentencepiece(decoder) -> text.Tokenizer:
  """'▁' spaces; characters without a token are encoded as bytes <0x..>."""
  vocabulary = {f'<0x{byte:02X}>': byte for byte in range(256)}
  vocabulary |= {word: 256 + i for i, word in enumerate(WORDS)}
  merges = [('▁', 'a'), ('a', 'b'), ('▁', '▁'), ('▁', 'b')]
  model = models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True)
  backend = tokenizers.Tokenizer(model)
  backend.normalizer = tokenizers.normalizers.Replace(' ', '▁')
  backend.decoder = decoder
  backend.add_special_tokens(['</s>'])
  return text.Tokenizer(backend)


def read(token_bytes, strings, new) -> np.ndarray:
  """The states after each new token, [B, W]."""
  stops = stopping.build(token_bytes, strings, len(token_bytes))
  return np.asarray(jax.jit(stopping.advance)(stops, jnp.asarray(new)))


def expected(token_bytes, strings: list[str], ids) -> np.ndarray:
  """Is a stop string in the text after each token, bool[W]."""
  seen = [b''.join(token_bytes[i] for i in ids[: end + 1]) for end in range(len(ids))]
  return np.array([any(s.encode() in part for s in strings) for part in seen])


class TestAdvance:
  @pytest.mark.parametrize('seed', range(3))
  def test_is_final_once_a_string_is_in_the_text(self, seed):
    rows = 40 * len(RULES)
    ids = np.random.default_rng(seed).integers(len(VOCABULARY), size=(rows, 12))
    rules = RULES * 40
    final = read(VOCABULARY, rules, ids) == stopping.FINAL
    for row in range(rows):
      wanted = expected(VOCABULARY, rules[row], ids[row])
      np.testing.assert_array_equal(final[row], wanted, str((rules[row], ids[row])))
    assert 0 < final[:, 0].sum() < final[:, -1].sum() < rows

  @pytest.mark.parametrize('seed', range(6))
  def test_random_strings_over_the_toy_tokenizer(self, seed):
    rng = random.Random(seed)
    word = lambda low, high: ''.join(rng.choices('abé', k=rng.randint(low, high)))
    rules = [[word(1, 5) for _ in range(rng.randint(0, 4))] for _ in range(32)]
    ids = [list(word(30, 30).encode())[:30] for _ in rules]
    final = read(TOY.token_bytes, rules, ids) == stopping.FINAL
    for row, rule in enumerate(rules):
      np.testing.assert_array_equal(
        final[row], expected(TOY.token_bytes, rule, ids[row])
      )

  @pytest.mark.parametrize(
    ('strings', 'tokens', 'ends'),
    [
      (['aab'], [b'aa', b'ab'], 1),  # in 'aaab' the first 'a' must be let go
      (['stop'], [b'no st', b'op here', b'x'], 1),  # ends in mid-token
      (['abcd', 'bc'], [b'ab', b'c', b'd'], 1),  # a string inside another
      (['a'], [b'', b'b', b'a', b'b'], 2),
      (['你'], ['你'.encode()[:1], '你'.encode()[1:]], 1),
      (['ab'], [b'a', b'', b'b'], 2),  # a special token between is not text
    ],
  )
  def test_examples(self, strings, tokens, ends):
    final = read(tokens, [strings], [range(len(tokens))])[0] == stopping.FINAL
    assert list(final) == [i >= ends for i in range(len(tokens))]

  def test_numbers_of_the_example(self):
    stops = stopping.build([b'x', b'n', b'ion', b'o'], [['no', 'on']], 4)
    assert stops.table[2:5, :3].T.tolist() == [[2, 2, 2], [3, 3, 0], [0, 0, 0]]
    assert stopping.advance(stops, jnp.asarray([[0, 1, 3]])).tolist() == [[2, 3, 0]]

  def test_equal_rules_share_states(self):
    rules = [['ab', 'c'], ['c', 'ab', 'ab'], []]
    states = read(TOY.token_bytes, rules, [[ord('a')]] * 3)
    assert states[0] == states[1] and states[2] == stopping.NEVER

  def test_state_goes_on_from_the_tokens_that_count(self):
    rule = [['abc']] * 4
    stops = stopping.build(TOY.token_bytes, rule, toy_text.VOCAB_SIZE)
    states = stopping.advance(stops, jnp.asarray([[*b'abc']] * 4))
    stops = stopping.after(stops, states, jnp.arange(4))  # '', 'a', 'ab', 'abc' kept
    rest = stopping.advance(stops, jnp.asarray([[*b'abc']] * 4)) == stopping.FINAL
    assert rest.tolist() == [
      [False, False, True],  # abc
      [False, False, True],  # aabc
      [False, False, True],  # ababc
      [True, True, True],
    ]
    clipped = stopping.advance(stops, jnp.asarray([[*b'c']] * 4))[:, 0]
    assert (clipped == stopping.FINAL).tolist() == [False, False, True, True]


class TestBuild:
  def test_other_strings_keep_the_shape(self):
    shapes = {
      stopping.build(TOY.token_bytes, [strings], 300).table.shape
      for strings in ([], ['a'], ['stop', 'end'], ['\n\nUser:'])
    }
    assert shapes == {(16, 300)}

  def test_vocabulary_of_another_size(self):
    larger = stopping.build([b'a', b'b'], [['a']], 4)
    states = stopping.advance(larger, jnp.asarray([[3, 2, 1, 0]]))
    assert (states == stopping.FINAL).tolist() == [[False, False, False, True]]
    assert stopping.build([b'a', b'b'], [['a']], 1).table.shape[1] == 1

  @pytest.mark.parametrize(
    ('strings', 'message'),
    [
      ([['a'], ['b', '']], r"row 1 has an empty stop string in \['b', ''\]"),
      (['stop'], "row 0 needs a list of stop strings .* got 'stop'"),
      ([[b'a']], r"row 0 needs a list of stop strings .* got \[b'a'\]"),
      ([['a' * 40000], ['b' * 97]], '40097 bytes in all, at most 32735'),
    ],
  )
  def test_errors(self, strings, message):
    with pytest.raises(ValueError, match=message):
      stopping.build(TOY.token_bytes, strings, toy_text.VOCAB_SIZE)


class TestCut:
  @pytest.mark.parametrize(
    ('whole', 'strings', 'kept'),
    [
      ('one two', ['two', 'ne'], 'o'),
      ('one two', [], 'one two'),
      ('one two', ['three'], 'one two'),
      ('stop', ['stop'], ''),
      ('a你b你', ['你', 'b'], 'a'),
    ],
  )
  def test_cuts_before_the_first(self, whole, strings, kept):
    assert stopping.cut(whole, strings) == kept


class TestTokenBytes:
  @pytest.mark.parametrize('sample', SAMPLES)
  @pytest.mark.parametrize('tokenizer', [TOY, sentencepiece(LLAMA)])
  def test_join_to_the_text(self, tokenizer, sample):
    ids = tokenizer.encode(sample)
    joined = b''.join(tokenizer.token_bytes[i] for i in ids)
    assert joined.decode() == tokenizer.decode(ids) == sample

  @pytest.mark.parametrize(
    'decoder',
    [
      decoders.Metaspace(prepend_scheme='never'),
      decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]),
      LLAMA,
      decoders.ByteLevel(),
      decoders.Sequence([decoders.ByteLevel()]),
    ],
  )
  def test_each_token_equals_its_decoding(self, decoder):
    tokenizer = sentencepiece(decoder)
    tokenizer.backend.add_tokens(['<tool>', 'two words'])
    first = tokenizer.backend.token_to_id('b')  # decoders may strip a text's start
    for token, read in enumerate(tokenizer.token_bytes):
      assert 'b' + read.decode(errors='replace') == tokenizer.decode([first, token])

  def test_special_tokens_and_gaps_have_none(self):
    vocabulary = {'a': 0, 'b': 4}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.decoder = decoders.ByteLevel()
    assert text.Tokenizer(backend).token_bytes == [b'a', b'', b'', b'', b'b']
    assert TOY.token_bytes[: toy_text.START] == [bytes([byte]) for byte in range(256)]
    assert TOY.token_bytes[toy_text.START :] == [b'', b'', b'']

  @pytest.mark.parametrize(
    ('decoder', 'named'),
    [
      (decoders.WordPiece(), 'WordPiece'),
      (None, 'null'),
      (decoders.Sequence([STRIP, FUSE]), 'Strip'),
      (decoders.Sequence([FUSE, REPLACE]), 'Replace'),
      (decoders.Replace(tokenizers.Regex('▁+'), ' '), 'Regex'),
    ],
  )
  def test_other_decoders_are_refused(self, decoder, named):
    vocabulary = {'a': 0, 'b': 1}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    if decoder is not None:
      backend.decoder = decoder
    with pytest.raises(ValueError, match=f'{named}.*use stop_ids instead'):
      _ = text.Tokenizer(backend).token_bytes


@pytest.fixture(scope='module')
def smollm2():
  return checkpoints.load_gguf(checkpoints.packaged_smollm2()).tokenizer


@pytest.mark.real
class TestSmolLM2:
  @pytest.mark.parametrize('sample', SAMPLES)
  def test_token_bytes_join_to_the_text(self, smollm2, sample):
    ids = smollm2.encode(sample)
    joined = b''.join(smollm2.token_bytes[i] for i in ids)
    assert joined.decode() == smollm2.decode(ids) == sample

  def test_each_token_equals_its_decoding(self, smollm2):
    for token, read in enumerate(smollm2.token_bytes):
      assert read.decode(errors='replace') == smollm2.decode([token])

  @pytest.mark.parametrize('sample', SAMPLES)
  def test_any_piece_of_a_text_stops_it(self, smollm2, sample):
    ids, rng = smollm2.encode(sample), random.Random(0)
    cuts = [sorted(rng.sample(range(len(sample) + 1), 2)) for _ in range(8)]
    rules = [[sample[start:end]] for start, end in cuts]
    final = read(smollm2.token_bytes, rules, [ids] * 8) == stopping.FINAL
    for row, rule in enumerate(rules):
      wanted = expected(smollm2.token_bytes, rule, ids)
      np.testing.assert_array_equal(final[row], wanted)
      assert wanted[-1]
