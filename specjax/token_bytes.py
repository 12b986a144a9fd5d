"""What bytes each token id stands for, read from a tokenizer's decoder.

Text cannot say it: a token may be half a character. Two families are understood:
byte-level BPE (GPT-2, Llama 3, Qwen), whose tokens are written in an alphabet of 256
stand-in characters, and SentencePiece (Llama 2, Gemma), where '▁' is a space and
'<0x0A>' a byte.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import tokenizers
from tokenizers import pre_tokenizers

BYTE_TOKEN = re.compile('<0x([0-9A-Fa-f]{2})>')


def of_vocabulary(backend: tokenizers.Tokenizer) -> list[bytes]:
  """Bytes of the ids 0 .. largest id, such that joining them decodes a text.

  Special tokens and ids without a token have none. Two things that some SentencePiece
  decoders do to a whole text are left out: they strip a space from its ends, and show
  a run of byte tokens as U+FFFD once one of them is broken.

  Raises:
    ValueError: a decoder of another kind, where a token's text depends on its place.
  """
  read = _reader(backend)
  special = {
    added.content
    for added in backend.get_added_tokens_decoder().values()
    if added.special
  }
  largest = max(backend.get_vocab().values(), default=-1)
  tokens = map(backend.id_to_token, range(largest + 1))
  return [b'' if token is None or token in special else read(token) for token in tokens]


def byte_alphabet() -> dict[str, int]:
  """The byte of each stand-in character in GPT-2's byte alphabet.

  Printable Latin-1 bytes stand for themselves; the others, in order, for the
  characters from U+0100 on.
  """
  alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
  themselves = {char: ord(char) for char in alphabet if ord(char) < 256}
  others = sorted(set(range(256)) - set(themselves.values()))
  return themselves | dict(zip(alphabet[len(themselves) :], others))


def _reader(backend: tokenizers.Tokenizer) -> Callable[[str], bytes]:
  """The function from a token, as the vocabulary writes it, to its bytes."""
  decoder = json.loads(backend.to_str())['decoder']
  steps = [_step(part) for part in _of_one_token(decoder)]

  def read(token: str) -> bytes:
    piece: str | bytes = token
    for step in steps:
      if isinstance(piece, bytes):
        break
      piece = step(piece)
    return piece if isinstance(piece, bytes) else piece.encode()

  return read


def _of_one_token(decoder: Mapping[str, Any] | None) -> list[Mapping[str, Any] | None]:
  """The decoder's parts that see tokens one by one: those before Fuse.

  After it only Strip is understood, which concerns the ends of the text alone.
  """
  if decoder is None or decoder['type'] != 'Sequence':
    return [decoder]
  parts = decoder['decoders']
  types = [part['type'] for part in parts]
  fuse = types.index('Fuse') if 'Fuse' in types else len(parts)
  for part in parts[fuse + 1 :]:
    if part['type'] != 'Strip':
      raise _unknown(part)
  return parts[:fuse]


def _step(part: Mapping[str, Any] | None) -> Callable[[str], str | bytes]:
  match part:
    case {'type': 'ByteLevel'}:
      return _byte_level
    case {'type': 'ByteFallback'}:
      return _byte_fallback
    case {'type': 'Replace', 'pattern': {'String': old}, 'content': new}:
      return lambda token: token.replace(old, new)
    case {'type': 'Metaspace', 'replacement': old}:
      return lambda token: token.replace(old, ' ')
  raise _unknown(part)


_ALPHABET = byte_alphabet()


def _byte_level(token: str) -> bytes:
  """A token with a character outside the alphabet is text: somebody added it."""
  if all(char in _ALPHABET for char in token):
    return bytes(_ALPHABET[char] for char in token)
  return token.encode()


def _byte_fallback(token: str) -> str | bytes:
  byte = BYTE_TOKEN.fullmatch(token)
  return bytes([int(byte[1], 16)]) if byte else token


def _unknown(part: Mapping[str, Any] | None) -> ValueError:
  return ValueError(
    'stop strings need the bytes of each token, and specjax cannot read them from a '
    f'tokenizer with the decoder {json.dumps(part, ensure_ascii=False)}; it knows '
    'ByteLevel, and Replace, Metaspace and ByteFallback (then Fuse, Strip): use '
    'stop_ids instead'
  )
