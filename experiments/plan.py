"""A comparison, checked: which methods on which prompts with which seeds."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments import measure, methods, questions
from experiments.measure import Batch, Bench
from experiments.methods import Method
from experiments.questions import Prompt
from specjax.model import Model

RETOKENISED = 3  # tokens, at most, that one token's text becomes: of broken UTF-8
Answers = Mapping[tuple[str, int, int, int], Sequence[int]]  # see records.key


class Group(NamedTuple):
  """What every method runs on, one after the other."""

  prompts: list[Prompt]
  repeat: int
  turn: int  # from 1


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
  """All that is run; nothing in it is left to check."""

  bench: Bench
  methods: list[Method]
  batches: list[list[Prompt]]
  seeds: Mapping[int, list[list[int]]]  # a prompt's index -> seeds [repeat][turn - 1]
  repeats: int
  phase_prompts: int
  seed: int
  config_hash: str  # names the config in every row of results

  def batch(self, group: Group, baseline: str, answers: Answers) -> Batch:
    """Tokens and seeds of a group; a later turn continues the baseline's answers."""
    prompts, repeat, turn = group
    earlier = lambda p: [answers[baseline, p.id, repeat, t] for t in range(1, turn)]
    return Batch(
      prompts=[
        questions.token_ids(self.bench.model, p.turns[:turn], earlier(p))
        for p in prompts
      ],
      seeds=[self.seeds[p.index][repeat][turn - 1] for p in prompts],
    )

  @property
  def stop_ids(self) -> tuple[int, ...]:
    """Tokens that end an answer."""
    return self.bench.model.tokenizer.stop_ids

  def groups(self) -> list[Group]:
    """All that is decoded; the turns of a conversation follow one another."""
    return [
      Group(batch, repeat, turn)
      for batch in self.batches
      for repeat in range(self.repeats)
      for turn in range(1, len(batch[0].turns) + 1)
    ]

  def phase_groups(self) -> list[Group]:
    """First turns of the first repeat whose rounds are timed, spread evenly."""
    total = len(self.batches)
    count = min(-(-self.phase_prompts // len(self.batches[0])), total)
    return [Group(self.batches[i * total // count], 0, 1) for i in range(count)]


def make(model: Model, chosen: Sequence[Prompt], config) -> Plan:
  """Checks what can be checked before anything is computed.

  Args:
    config: a locked ConfigDict with the fields of `configs.common.compare`.

  Raises:
    ValueError: unknown methods; prompts that do not fit the context or the batches;
      numbers out of range.
  """
  _check_numbers(config, len(chosen))
  asked = config.methods.to_dict()
  asked = methods.choose(asked, config.only, config.temperature)
  parsed = list(methods.parse(asked, config.temperature, model).values())
  for method in parsed:
    methods.baseline_of(method, parsed)
  if config.turns:
    chosen = [dataclasses.replace(p, turns=p.turns[: config.turns]) for p in chosen]
  longest = _check_context(model, chosen, config.max_new_tokens)
  indices = [prompt.index for prompt in chosen]
  turns = max(len(prompt.turns) for prompt in chosen)
  seeds = measure.seeds(config.seed, indices, config.repeats, turns)
  size = config.batch_size
  batches = [list(chosen[i : i + size]) for i in range(0, len(chosen), size)]
  _check_turns(batches)
  return Plan(
    bench=Bench(
      model,
      config.max_new_tokens,
      max_len=1 << (longest - 1).bit_length(),
      filters={name: config[name] for name in ('top_k', 'top_p', 'min_p')},
    ),
    methods=parsed,
    batches=batches,
    seeds={index: table.tolist() for index, table in zip(indices, seeds)},
    repeats=config.repeats,
    phase_prompts=config.phase_prompts,
    seed=config.seed,
    config_hash=_hash(config),
  )


def _check_numbers(config, count: int) -> None:
  least = dict(max_new_tokens=1, batch_size=1, repeats=1, phase_prompts=0, seed=0)
  least |= dict(turns=0, floor_positions=0)
  if config.seed >= 2**32:
    raise ValueError(f'seed must be below 2**32, got {config.seed}')
  for name, low in least.items():
    if config[name] < low:
      raise ValueError(f'{name} must be at least {low}, got {config[name]}')
  if count % config.batch_size:
    raise ValueError(
      f'{count} prompts do not fill batches of {config.batch_size}: change num_prompts '
      'or batch_size'
    )


def _check_turns(batches: Sequence[Sequence[Prompt]]) -> None:
  for batch in batches:
    turns = {prompt.id: len(prompt.turns) for prompt in batch}
    if len(set(turns.values())) > 1:
      raise ValueError(
        f'a batch mixes prompts of several numbers of turns ({turns} by id): '
        'set turns=1 or batch_size=1'
      )


def _check_context(model: Model, chosen: Sequence[Prompt], max_new_tokens: int) -> int:
  """Tokens of the longest conversation, its last answer included: the buffer."""
  said = {
    prompt.id: len(questions.token_ids(model, prompt.turns, [[]] * earlier))
    for prompt in chosen
    for earlier in [len(prompt.turns) - 1]
  }
  answered = {p.id: max_new_tokens * (len(p.turns) - 1) for p in chosen}
  most = model.target.max_positions
  room = most - max_new_tokens
  too_long = [i for i in said if said[i] + answered[i] > room]
  if too_long:
    raise ValueError(
      f'the context is {most} tokens, of which max_new_tokens takes {max_new_tokens}: '
      f'prompts may have {room}, but question_ids {too_long} may have more; lower '
      'max_new_tokens, or leave them out of the prompt file'
    )
  longest = max(said[i] + answered[i] * RETOKENISED for i in said) + max_new_tokens
  return min(longest, most)


def _hash(config) -> str:
  text = json.dumps(json.loads(config.to_json()), sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:16]
