"""Prompt files in Spec-Bench's format: one JSON object a line.

{"question_id": 81, "category": "writing", "turns": ["...", "..."]}

A later turn continues the conversation; statistics take all turns as one question.
"""

import collections
import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

from specjax.model import Model

# MT-bench's categories are one of Spec-Bench's six tasks.
MULTI_TURN = 'writing roleplay reasoning math coding extraction stem humanities'.split()
SPLITS = 'all', 'dev', 'test'


@dataclasses.dataclass(frozen=True)
class Prompt:
  """One question."""

  index: int  # its place in the file: seeds depend on it
  id: int
  category: str
  turns: tuple[str, ...]

  @property
  def task(self) -> str:
    """The category, with MT-bench's eight taken as one."""
    return 'multi-turn' if self.category in MULTI_TURN else self.category

  @property
  def split(self) -> str:
    """Even question ids are the test split (statistics.md, item 1)."""
    return 'dev' if self.id % 2 else 'test'


def load(path: str | Path) -> list[Prompt]:
  """Reads a prompt file.

  Raises:
    ValueError: no such file; a line is not a prompt; a question id stands twice.
  """
  if not Path(path).is_file():
    raise ValueError(f'no prompt file at {path}: set prompts to a JSONL file')
  with open(path, encoding='utf-8') as file:
    lines = [(number, line) for number, line in enumerate(file, 1) if line.strip()]
  prompts: list[Prompt] = []
  ids: set[int] = set()
  for number, line in lines:
    try:
      prompt = _parse(line, len(prompts))
      if prompt.id in ids:
        raise ValueError(f'question_id {prompt.id} stands twice')
    except ValueError as error:
      raise ValueError(f'{path}, line {number}: {error}') from None
    ids.add(prompt.id)
    prompts.append(prompt)
  return prompts


def select(prompts: Sequence[Prompt], num_prompts: int, split: str) -> list[Prompt]:
  """`num_prompts` of a split (0 = all of it), in the order of the file.

  They are spread evenly over tasks, inside a task over dev and test, and inside those
  over the file. So SB-120 is 60 dev and 60 test prompts, and its test half is what
  `split='test', num_prompts=60` selects.

  Raises:
    ValueError: an unknown split; more prompts wanted than there are.
  """
  if split not in SPLITS:
    raise ValueError(f'split must be one of {", ".join(SPLITS)}, got {split!r}')
  pool = [prompt for prompt in prompts if split in ('all', prompt.split)]
  if not pool or not 0 <= num_prompts <= len(pool):
    raise ValueError(
      f'num_prompts is {num_prompts}, but split {split} has {len(pool)} prompts; '
      'choose fewer, or 0 for all'
    )
  chosen: list[Prompt] = []
  for task, wanted in _shares(pool, lambda p: p.task, num_prompts or len(pool)):
    for part, count in _shares(task, lambda p: p.split, wanted):
      chosen += [part[i * len(part) // count] for i in range(count)]
  return sorted(chosen, key=lambda prompt: prompt.index)


def token_ids(
  model: Model, turns: Sequence[str], answers: Sequence[Sequence[int]] = ()
) -> list[int]:
  """A conversation in the model's chat template, or plain where it has none.

  Args:
    turns: user messages; the last one is to be answered.
    answers: tokens of the answers to the others.
  """
  texts = [turns[0]]
  for answer, turn in zip(answers, turns[1:], strict=True):
    texts += [model.tokenizer.decode(answer), turn]
  if model.tokenizer.chat_template is None:
    return model.tokenizer.encode('\n\n'.join(texts))
  roles = itertools.cycle(['user', 'assistant'])
  return model.tokenizer.chat(
    [{'role': role, 'content': text} for role, text in zip(roles, texts)]
  )


def _parse(line: str, index: int) -> Prompt:
  try:
    fields = json.loads(line)
  except json.JSONDecodeError as error:
    raise ValueError(f'not JSON: {error}') from None
  if not isinstance(fields, dict):
    raise ValueError(f'a JSON object is wanted, got {line[:40].strip()}')
  types = {'question_id': int, 'category': str, 'turns': list}
  for name, kind in types.items():
    if not isinstance(fields.get(name), kind):
      raise ValueError(f'{name} must be {kind.__name__}, got {fields.get(name)!r}')
  turns = fields['turns']
  if not turns or not all(isinstance(turn, str) and turn.strip() for turn in turns):
    raise ValueError(f'turns must hold texts that are not empty, got {turns!r}')
  return Prompt(index, fields['question_id'], fields['category'], tuple(turns))


def _shares(prompts, key, wanted: int) -> list[tuple[list[Prompt], int]]:
  """Groups of prompts, and how many of each to take: one each in turn until enough."""
  groups = collections.defaultdict(list)
  for prompt in prompts:
    groups[key(prompt)].append(prompt)
  counts = dict.fromkeys(groups, 0)
  while sum(counts.values()) < wanted:
    for name, group in groups.items():
      if counts[name] < len(group) and sum(counts.values()) < wanted:
        counts[name] += 1
  return [(group, counts[name]) for name, group in groups.items()]
