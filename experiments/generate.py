"""Streams an answer and colours it: green tokens were drafted and accepted.

python -m experiments.generate --prompt="Translate to German: Good morning, everyone!"
"""

import ast
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import rich.console
from absl import app, flags

import specjax
from experiments import methods, questions
from specjax import text

_PROMPT = flags.DEFINE_string('prompt', None, 'What the user says.', required=True)
_TARGET = flags.DEFINE_string(
  'target', 'smollm2-135m', 'A preset, a GGUF file, a Hugging Face directory or id.'
)
_DRAFTER = flags.DEFINE_string('drafter', 'prompt_lookup', 'A module of drafters/.')
_NUM_DRAFT = flags.DEFINE_integer('num_draft', None, "K; default: the drafter's own.")
_SET = flags.DEFINE_multi_string(
  'set', [], "A hyper-parameter of the drafter, 'num_layers=8'; may be repeated."
)
_VERIFIER = flags.DEFINE_string(
  'verifier', None, 'A module of verifiers/; default: greedy at temperature 0, gumbel.'
)
_TEMPERATURE = flags.DEFINE_float('temperature', 0.0, '0 is greedy.')
_MAX_NEW_TOKENS = flags.DEFINE_integer(
  'max_new_tokens', 128, 'Where to end if no stop token comes.', lower_bound=1
)
_SEED = flags.DEFINE_integer('seed', 0, 'Equal seeds give equal text.')

FROM_DRAFT = 'green'


def main(argv: list[str]) -> None:
  logging.getLogger('jax').setLevel(logging.WARNING)
  if len(argv) > 1:
    sys.exit(f'unknown arguments {argv[1:]}: put the prompt in quotes')
  console = rich.console.Console()
  try:
    model = specjax.load(_TARGET.value)
    start = prepare(model)
    with console.status('compiling'):
      next(start())
  except (ValueError, OSError) as error:
    sys.exit(str(error))
  console.out(summary(show(console, model.tokenizer, start())), highlight=False)


def prepare(model: specjax.Model) -> Callable[[], Iterator]:
  """A function that starts to stream the answer that the flags ask for.

  Raises:
    ValueError: flags that do not fit.
  """
  drafter: dict = {'name': _DRAFTER.value, **dict(map(setting, _SET.value))}
  if _NUM_DRAFT.value is not None:
    drafter['num_draft'] = _NUM_DRAFT.value
  method: dict = {'drafter': drafter}
  if _VERIFIER.value is not None:
    method['verifier'] = {'name': _VERIFIER.value}
  asked = {_DRAFTER.value: method}
  (parsed,) = methods.parse(asked, _TEMPERATURE.value, model).values()
  return lambda: specjax.stream(
    model,
    questions.token_ids(model, [_PROMPT.value]),
    drafter=parsed.drafter,
    drafter_params=parsed.params,
    verifier=parsed.verifier,
    temperature=_TEMPERATURE.value,
    max_new_tokens=_MAX_NEW_TOKENS.value,
    seed=_SEED.value,
  )


def setting(text: str) -> tuple[str, Any]:
  """'num_layers=8' as a name and a value: a Python literal, else the text itself.

  Raises:
    ValueError: there is no '='.
  """
  name, equals, value = text.partition('=')
  if not equals:
    raise ValueError(f'--set takes name=value, got {text!r}')
  try:
    return name, ast.literal_eval(value)
  except (ValueError, SyntaxError):
    return name, value


def show(
  console: rich.console.Console, tokenizer: text.Tokenizer, stream: Iterator
) -> list[tuple[float, int]]:
  """Prints tokens as they come; (seconds since the start, new tokens) of each round.

  A character that several tokens make up is printed once, with the last one's colour.
  """
  began = time.perf_counter()
  detokenizer = text.Detokenizer(tokenizer)
  rounds = []
  for tokens, trace in stream:
    rounds.append((time.perf_counter() - began, len(tokens)))
    for token, depth in zip(tokens, trace):
      style = FROM_DRAFT if depth else None
      console.out(detokenizer.push([token]), style=style, end='', highlight=False)
  console.out(detokenizer.flush(), highlight=False)
  return rounds


def summary(rounds: list[tuple[float, int]]) -> str:
  """Speed counts from the first round on: what comes before is prefill.

  rounds (0.5, 2) (0.6, 1) (0.7, 3) -> 6 tokens in 3 rounds, then 20 tokens/s
  """
  (first_s, first_tokens), (last_s, _) = rounds[0], rounds[-1]
  tokens = sum(count for _, count in rounds)
  line = (
    f'\n{tokens} tokens in {len(rounds)} target calls: tau {tokens / len(rounds):.2f}; '
    f'first after {first_s:.2f} s'
  )
  if len(rounds) > 1:
    speed = (tokens - first_tokens) / (last_s - first_s)
    line += f', then {speed:.1f} tokens/s'
  return line + ' (compile time apart)'


if __name__ == '__main__':
  app.run(main)
