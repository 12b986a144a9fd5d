"""A comparison, checked: which methods on which prompts with which seeds."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence

from experiments import measure, methods, questions
from experiments.measure import Batch, Bench
from experiments.methods import Method
from experiments.questions import Prompt
from specjax.model import Model


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
  """All that is run; nothing in it is left to check."""

  bench: Bench
  methods: list[Method]
  batches: list[list[Prompt]]
  ids: Mapping[int, list[int]]  # a prompt's index -> its tokens
  seeds: Mapping[int, list[int]]  # a prompt's index -> one seed a repeat
  repeats: int
  phase_prompts: int
  seed: int
  config_hash: str  # names the config in every row of results

  def batch(self, chosen: Sequence[Prompt], repeat: int) -> Batch:
    """Tokens and seeds of some prompts."""
    tokens = [self.ids[prompt.index] for prompt in chosen]
    return Batch(tokens, [self.seeds[prompt.index][repeat] for prompt in chosen])

  @property
  def stop_ids(self) -> tuple[int, ...]:
    """Tokens that end an answer."""
    return self.bench.model.tokenizer.stop_ids

  def groups(self) -> list[tuple[list[Prompt], int]]:
    """(prompts, repeat): what all methods run on, one after the other."""
    return [(batch, r) for batch in self.batches for r in range(self.repeats)]

  def phase_groups(self) -> list[tuple[list[Prompt], int]]:
    """Those groups of the first repeat whose rounds are timed, spread evenly."""
    total = len(self.batches)
    count = min(-(-self.phase_prompts // len(self.batches[0])), total)
    return [(self.batches[i * total // count], 0) for i in range(count)]


def make(model: Model, chosen: Sequence[Prompt], config) -> Plan:
  """Checks what can be checked before anything is computed.

  Args:
    config: a locked ConfigDict with the fields of `configs.common.compare`.

  Raises:
    ValueError: unknown methods; prompts that do not fit the context or the batches;
      numbers out of range.
  """
  _check_numbers(config, len(chosen))
  known = methods.parse(config.methods.to_dict(), config.temperature, model)
  ids = {p.index: questions.token_ids(model, p.turns[0]) for p in chosen}
  _check_context(model, chosen, ids, config.max_new_tokens)
  longest = max(map(len, ids.values())) + config.max_new_tokens
  seeds = measure.seeds(config.seed, list(ids), config.repeats)
  size = config.batch_size
  return Plan(
    bench=Bench(
      model,
      config.max_new_tokens,
      max_len=1 << (longest - 1).bit_length(),
      filters={name: config[name] for name in ('top_k', 'top_p', 'min_p')},
    ),
    methods=methods.choose(known, config.only),
    batches=[list(chosen[i : i + size]) for i in range(0, len(chosen), size)],
    ids=ids,
    seeds={index: row.tolist() for index, row in zip(ids, seeds)},
    repeats=config.repeats,
    phase_prompts=config.phase_prompts,
    seed=config.seed,
    config_hash=_hash(config),
  )


def _check_numbers(config, count: int) -> None:
  least = dict(max_new_tokens=1, batch_size=1, repeats=1, phase_prompts=0, seed=0)
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


def _check_context(model: Model, chosen, ids: Mapping, max_new_tokens: int) -> None:
  room = model.target.max_positions - max_new_tokens
  too_long = [prompt.id for prompt in chosen if len(ids[prompt.index]) > room]
  if too_long:
    raise ValueError(
      f'the context is {model.target.max_positions} tokens, of which max_new_tokens '
      f'takes {max_new_tokens}: prompts may have {room}, but question_ids {too_long} '
      'have more; lower max_new_tokens or leave them out of the prompt file'
    )


def _hash(config) -> str:
  text = json.dumps(json.loads(config.to_json()), sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:16]
