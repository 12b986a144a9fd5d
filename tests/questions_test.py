"""Prompt files, and which of their prompts a comparison takes."""

import collections

import pytest

from configs.experiments import demo
from experiments import questions


def spec_bench_like() -> list[questions.Prompt]:
  """480 prompts in six tasks of 80; the first task is MT-bench's eight categories."""
  chat = [category for category in questions.MULTI_TURN for _ in range(10)]
  tasks = 'translation', 'summarization', 'qa', 'math_reasoning', 'rag'
  names = chat + [task for task in tasks for _ in range(80)]
  return [questions.Prompt(i, 81 + i, name, ('Hi.',)) for i, name in enumerate(names)]


class TestPrompts:
  def test_sb_120(self):
    chosen = questions.select(spec_bench_like(), 120, 'all')
    counts = collections.Counter((p.task, p.split) for p in chosen)
    assert len(counts) == 12 and set(counts.values()) == {10}
    assert {p.category for p in chosen if p.task == 'multi-turn'} == set(
      questions.MULTI_TURN
    )
    test = [p for p in chosen if p.split == 'test']
    assert test == questions.select(spec_bench_like(), 60, 'test')
    assert all(p.id % 2 == 0 for p in test)

  def test_small_tasks_give_what_they_have(self):
    few = [questions.Prompt(i, i, 'qa' if i else 'rag', ('Hi.',)) for i in range(9)]
    chosen = questions.select(few, 5, 'all')
    assert [p.task for p in chosen] == ['rag', 'qa', 'qa', 'qa', 'qa']
    assert questions.select(few, 0, 'all') == few

  @pytest.mark.parametrize(
    ('count', 'split'), [(481, 'all'), (241, 'dev'), (-1, 'all')]
  )
  def test_not_more_than_there_are(self, count, split):
    with pytest.raises(ValueError, match=f'num_prompts is {count}, but split {split}'):
      questions.select(spec_bench_like(), count, split)

  @pytest.mark.parametrize(
    ('line', 'message'),
    [
      ('{"question_id": 1', 'not JSON'),
      ('[1]', 'a JSON object is wanted'),
      (
        '{"question_id": "1", "category": "qa", "turns": ["Hi."]}',
        'question_id must be',
      ),
      ('{"question_id": 2, "category": "qa", "turns": [" "]}', 'turns must hold texts'),
      ('{"question_id": 1, "category": "qa", "turns": ["Hi."]}', '1 stands twice'),
    ],
  )
  def test_errors_name_the_line(self, tmp_path, line, message):
    path = tmp_path / 'p.jsonl'
    path.write_text('{"question_id": 1, "category": "qa", "turns": ["Hi."]}\n\n' + line)
    with pytest.raises(ValueError, match=f'p.jsonl, line 3: .*{message}'):
      questions.load(path)

  def test_the_shipped_file(self):
    shipped = questions.load(demo.get_config().prompts)
    tasks = collections.Counter(p.task for p in questions.select(shipped, 20, 'all'))
    assert len(tasks) == 10 and set(tasks.values()) == {2}
