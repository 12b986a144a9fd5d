"""A byte-level tokenizer for tests: a token is a byte, and its id is the byte."""

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from specjax import text, token_bytes

START, END, PAD = 256, 257, 258
VOCAB_SIZE = 259

CHAT_TEMPLATE = """\
{% for message in messages %}
{{ '<|start|>' + message.role + '\n' + message.content + '<|end|>\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<|start|>assistant\n' }}
{%- endif %}
"""


def toy_tokenizer() -> text.Tokenizer:
  """Ids 0..255 are bytes, then `<|start|>`, `<|end|>` (which stops) and `<|pad|>`."""
  backend = tokenizers.Tokenizer(
    models.BPE(vocab=token_bytes.byte_alphabet(), merges=[])
  )
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(
    add_prefix_space=False, use_regex=False
  )
  backend.decoder = decoders.ByteLevel()
  backend.add_special_tokens(['<|start|>', '<|end|>', '<|pad|>'])
  return text.Tokenizer(
    backend=backend,
    chat_template=CHAT_TEMPLATE,
    special_tokens={'eos_token': '<|end|>', 'pad_token': '<|pad|>'},
    stop_ids=(END,),
  )
