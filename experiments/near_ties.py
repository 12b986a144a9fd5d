"""The near-tie floor of a comparison: how far rounding alone moves a logit (item 7)."""

from collections.abc import Sequence

from experiments import methods, teacher_forcing
from experiments.plan import Answers, Plan
from specjax.model import Model

BATCH = 8  # rows at once
Text = tuple[Sequence[int], Sequence[int]]  # prompt and answer


def measure(todo: Plan, answers: Answers, wanted: int) -> dict | None:
  """eps on answers of the first method: one row scored against the widest draft's.

  Args:
    wanted: positions, at least, if there are so many; 0: not measured.

  Returns:
    eps, the positions compared, and the rows of the wide call; None: not measured, or
    no text ends early enough in the context.
  """
  if not wanted:
    return None
  baseline = methods.baseline_of(todo.methods[0], todo.methods).name
  width = 1 + max(method.drafter.num_nodes for method in todo.methods)
  room = todo.bench.model.target.max_positions - width
  texts: list[Text] = []
  for group in todo.groups():
    if group.repeat == 0 and sum(len(answer) for _, answer in texts) < wanted:
      batch = todo.batch(group, baseline, answers)
      keys = [(baseline, prompt.id, 0, group.turn) for prompt in group.prompts]
      both = zip(batch.prompts, (answers[key] for key in keys))
      texts += [text for text in both if sum(map(len, text)) <= room]
  if not texts:
    return None
  eps, positions = floor(todo.bench.model, texts, width)
  return {'eps': eps, 'positions': positions, 'rows': width}


def note(found: dict) -> str:
  """What the floor means for greedy texts."""
  return (
    f'Rounding moves a logit by up to {found["eps"]:.1e} ({found["positions"]} '
    f'positions, {found["rows"]} rows in a call against one): greedy choices less than '
    "twice that apart may differ from the baseline's."
  )


def floor(model: Model, texts: Sequence[Text], width: int) -> tuple[float, int]:
  """eps over all these (prompt, answer) pairs, and how many positions they have."""
  prompts, outputs = ([text[part] for text in texts] for part in (0, 1))
  floors = [
    teacher_forcing.floor(
      model.target,
      model.params,
      prompts[i : i + BATCH],
      outputs[i : i + BATCH],
      width,
    )
    for i in range(0, len(texts), BATCH)
  ]
  return max(f.eps for f in floors), sum(f.positions for f in floors)
