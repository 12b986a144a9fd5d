"""Training data that holds evaluation prompts is found before anything runs."""

import json

import pytest

from experiments import contamination
from experiments.questions import Prompt

NUMBERS = 'one two three four five six seven eight nine ten eleven twelve thirteen'
PROMPTS = [
  Prompt(0, 7, 'qa', ('Hello there.', f'And now: {NUMBERS}?')),
  Prompt(1, 8, 'qa', (f'Say {NUMBERS.replace("seven", "7")} to me.',)),
]


def write(path, content: str):
  path.write_text(content)
  return str(path)


@pytest.mark.parametrize(
  'text, found',
  [
    (f'He said: "{NUMBERS.upper()}!"', [7]),
    (NUMBERS.replace(' ', ', '), [7]),
    (NUMBERS.removesuffix(' thirteen'), []),
    (NUMBERS.replace('seven', '7') + '; ' + NUMBERS, [7, 8]),
    ('', []),
  ],
)
def test_thirteen_words_in_a_row(text, found):
  assert contamination.overlapping(PROMPTS, ['other words', text]) == found


@pytest.mark.parametrize('lines', [False, True])
def test_every_string_of_a_file_is_read(tmp_path, lines):
  rows = [{'q': 'a', 'turns': [{'text': 'b'}, 'c']}, {'n': 3, 'x': None, 'y': 'd'}]
  text = '\n\n'.join(map(json.dumps, rows)) if lines else json.dumps(rows, indent=1)
  file = write(tmp_path / 'data.json', text)
  assert list(contamination.texts(tmp_path / 'data.json')) == ['a', 'b', 'c', 'd']
  assert contamination.check(PROMPTS, [file], allowed=False) == (
    'Contamination: 0 of 2 prompts share 13 words in a row with 1 training files.'
  )


def test_more_than_none_is_refused_unless_asked_for(tmp_path):
  file = write(tmp_path / 'data.jsonl', json.dumps({'answer': NUMBERS}))
  with pytest.raises(ValueError, match=r'1 of 2 prompts.*question_ids \[7\]'):
    contamination.check(PROMPTS, [file], allowed=False)
  assert '1 of 2' in contamination.check(PROMPTS, [file], allowed=True)


def test_files_that_cannot_be_read_are_named(tmp_path):
  with pytest.raises(ValueError, match='no training file at nowhere'):
    contamination.check(PROMPTS, ['nowhere'], allowed=False)
  file = write(tmp_path / 'data.jsonl', '{"a": "b"}\n{"a": ')
  with pytest.raises(ValueError, match='data.jsonl, line 2 is not JSON'):
    contamination.check(PROMPTS, [file], allowed=False)
