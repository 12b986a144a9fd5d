"""The streamed answer on the screen."""

import io

import rich.console

from experiments import generate
from specjax.testing import toy_text


class TestGenerate:
  STREAM = [([ord('[')], [0]), (list('b]你'.encode()), [0, 1, 1, 2, 0]), ([33], [0])]

  def shown(self, **options) -> str:
    file = io.StringIO()
    console = rich.console.Console(file=file, **options)
    rounds = generate.show(console, toy_text.toy_tokenizer(), iter(self.STREAM))
    assert [count for _, count in rounds] == [1, 5, 1]
    return file.getvalue()

  def test_plain_text_where_there_is_no_terminal(self):
    assert self.shown() == '[b]你!\n'

  def test_accepted_tokens_are_green_and_characters_whole(self):
    shown = self.shown(force_terminal=True, color_system='standard', width=3)
    assert shown == '[b\x1b[32m]\x1b[0m你!\n'

  def test_summary(self):
    line = generate.summary([(0.5, 2), (0.6, 1), (0.7, 3)])
    assert '6 tokens in 3 target calls: tau 2.00' in line
    assert 'first after 0.50 s, then 20.0 tokens/s' in line
