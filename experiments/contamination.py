"""Does training data hold the evaluation prompts? Counted before anything is measured.

Statistics.md, item 11: a prompt is contaminated if 13 words in a row of it stand in a
training text too. Words are compared in lower case and without punctuation.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from experiments.questions import Prompt

WORDS = 13
_WORD = re.compile(r'\w+')


def check(prompts: Sequence[Prompt], files: Sequence[str], allowed: bool) -> str:
  """A line that says how many prompts overlap with the training files.

  Raises:
    ValueError: some do and that is not allowed; a file cannot be read.
  """
  found = overlapping(prompts, (text for file in files for text in texts(Path(file))))
  line = (
    f'Contamination: {len(found)} of {len(prompts)} prompts share {WORDS} words in a '
    f'row with {len(files)} training files'
  )
  if found and not allowed:
    raise ValueError(
      f'{line} (question_ids {found[:10]}): train on other data, leave them out, or '
      'say allow_contamination=True'
    )
  return f'{line}.'


def overlapping(prompts: Sequence[Prompt], trained: Iterable[str]) -> list[int]:
  """Ids of the prompts that share a run of 13 words with one of the training texts."""
  owners: dict[tuple[str, ...], set[int]] = {}
  for prompt in prompts:
    for gram in (g for turn in prompt.turns for g in grams(turn)):
      owners.setdefault(gram, set()).add(prompt.id)
  found: set[int] = set()
  for text in trained:
    for gram in grams(text):
      found |= owners.get(gram, set())
  return sorted(found)


def grams(text: str) -> Iterator[tuple[str, ...]]:
  """All runs of 13 words, in their order."""
  words = _WORD.findall(text.lower())
  return zip(*(words[i:] for i in range(WORDS)))


def texts(file: Path) -> Iterator[str]:
  """Every string in a JSON or JSONL file, however deep.

  Raises:
    ValueError: there is no such file, or it is neither.
  """
  if not file.is_file():
    raise ValueError(f'no training file at {file}: correct trained_on')
  content = file.read_text('utf-8')
  try:
    yield from _strings(json.loads(content))
  except json.JSONDecodeError:
    for number, line in enumerate(content.split('\n'), 1):
      yield from _strings(_parsed(line, file, number)) if line.strip() else ()


def _parsed(line: str, file: Path, number: int):
  try:
    return json.loads(line)
  except json.JSONDecodeError as error:
    raise ValueError(f'{file}, line {number} is not JSON: {error}') from None


def _strings(value) -> Iterator[str]:
  if isinstance(value, str):
    yield value
  elif isinstance(value, dict | list):
    for part in value.values() if isinstance(value, dict) else value:
      yield from _strings(part)
