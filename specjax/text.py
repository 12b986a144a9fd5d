"""Text to token ids and back: a tokenizer with its chat template, and streaming.

A `Tokenizer` comes from a checkpoint (`specjax.checkpoints`) or, in tests, from
`specjax.testing.toy_text`. `Detokenizer` turns tokens into text while they arrive.
"""

import dataclasses
import datetime
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

import jinja2
import tokenizers
from jinja2 import sandbox

from specjax import token_bytes

REPLACEMENT = '\ufffd'  # what a decoder shows for bytes that are not (yet) UTF-8
MAX_PARTIAL = 3  # replacement characters that one unfinished character may show as
# Tokens held back before broken bytes are shown as such: a multiple of the three bytes
# of U+FFFD itself, so that a run of it is cut between two.
MAX_HELD = 15

# Chat templates that print the date get this one, Llama 3's own default, so that a
# prompt is the same tokens next week.
TEMPLATE_DATE = datetime.date(2024, 7, 26)


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
  """A `tokenizers.Tokenizer` with what a checkpoint says about chats and stopping.

  `special_tokens` holds the names a chat template may use (`bos_token`, ...) and
  their text; `stop_ids` the tokens that end an answer, sorted.
  """

  backend: tokenizers.Tokenizer
  chat_template: str | None = None
  special_tokens: Mapping[str, str] = dataclasses.field(default_factory=dict)
  stop_ids: tuple[int, ...] = ()

  def encode(self, text: str) -> list[int]:
    """Token ids of `text`; special tokens in it are recognised, none are added."""
    return self.backend.encode(text, add_special_tokens=False).ids

  def decode(self, ids: Sequence[int]) -> str:
    """The text of `ids` without special tokens; broken UTF-8 shows as U+FFFD."""
    return self.backend.decode(ids, skip_special_tokens=True)

  def chat(
    self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True
  ) -> list[int]:
    """Token ids of a conversation, laid out by the checkpoint's chat template.

    `messages` are `{'role': ..., 'content': ...}`, oldest first. With
    `add_generation_prompt` the ids end where the assistant's answer starts. Raises
    ValueError if there is no template, or if the template refuses the messages.
    """
    if self.chat_template is None:
      raise ValueError(
        'This tokenizer has no chat template, so it cannot lay out a conversation: '
        'use an instruction-tuned checkpoint, or encode() a plain prompt.'
      )
    try:
      text = _compile(self.chat_template).render(
        messages=messages,
        add_generation_prompt=add_generation_prompt,
        tools=None,
        documents=None,
        **self.special_tokens,
      )
    except jinja2.TemplateError as error:
      roles = [message.get('role') for message in messages]
      raise ValueError(
        f'The chat template refused a conversation with roles {roles}: {error}'
      ) from error
    return self.encode(text)

  @functools.cached_property
  def fingerprint(self) -> str:
    """SHA-256 of the vocabulary: equal if and only if all ids mean the same."""
    vocabulary = sorted(self.backend.get_vocab(with_added_tokens=True).items())
    return hashlib.sha256(json.dumps(vocabulary).encode()).hexdigest()

  @functools.cached_property
  def token_bytes(self) -> list[bytes]:
    """The bytes each id adds to a text, see `specjax.token_bytes.of_vocabulary`."""
    return token_bytes.of_vocabulary(self.backend)


@functools.lru_cache(maxsize=8)
def _compile(template: str) -> jinja2.Template:
  """Compiles a chat template in the environment `transformers` gives it."""
  environment = sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=['jinja2.ext.loopcontrols']
  )
  environment.filters['tojson'] = functools.partial(json.dumps, ensure_ascii=False)
  environment.globals['raise_exception'] = _raise_exception
  environment.globals['strftime_now'] = TEMPLATE_DATE.strftime
  return environment.from_string(template)


def _raise_exception(message: str):
  raise jinja2.TemplateError(message)


class Detokenizer:
  """Text of a growing sequence of tokens, each character once and whole.

  A character may be split over several tokens, so text that ends in U+FFFD is held
  back until more tokens settle it. All pieces together equal `decode` of all ids. The
  one exception: a byte-fallback vocabulary shows a whole run of byte tokens as U+FFFD
  once one of them is broken, and text already given is not taken back.
  The cost of a token does not depend on how many came before.
  """

  def __init__(self, tokenizer: Tokenizer):
    self._tokenizer = tokenizer
    self._window: list[int] = []  # the last tokens, starting at a character
    self._context = 0  # how many of them were settled before
    self._given = 0  # how many characters of the window's text were returned

  def push(self, ids: Iterable[int]) -> str:
    """Adds tokens; returns the text they complete, '' if none."""
    return ''.join(self._push(token) for token in ids)

  def flush(self) -> str:
    """Ends the sequence; returns what was held back. The next push starts afresh."""
    rest = self._tokenizer.decode(self._window)[self._given :]
    self._window, self._context, self._given = [], 0, 0
    return rest

  def _push(self, token: int) -> str:
    self._window.append(token)
    text = self._tokenizer.decode(self._window)
    partial = len(text) - len(text.rstrip(REPLACEMENT))
    full = len(self._window) - self._context >= MAX_HELD
    if partial and not full:
      return ''
    partial = min(partial, MAX_PARTIAL)
    new = text[self._given : len(text) - partial]
    if new or full:
      # The settled tokens stay as context: some decoders strip a leading space.
      self._window = self._window[self._context :]
      self._context = len(self._window)
      self._given = len(self._tokenizer.decode(self._window)) - partial
    return new
