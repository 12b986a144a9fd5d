"""From `--drafter=package.module` to an instance that the contract can test."""

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax

from specjax.model import Model

EXAMPLES = dict(
  drafter='def example(model): return Drafter(...), params  # None: no arrays',
  verifier='def example(): return Verifier(...)',
)


@dataclasses.dataclass(frozen=True)
class Subject:
  """What is tested: each call of `make` builds it anew.

  A drafter's make(model) returns it and its own params, or raises ValueError for a
  target that it does not work with; a verifier's make() returns it.
  """

  name: str
  make: Callable[..., Any]


@functools.cache
def drafter(name: str) -> Subject:
  """The drafter of a module: its `example(model)`, else `Drafter` with its defaults.

  Args:
    name: a dotted path, or the name of a module in specjax.drafters.

  Raises:
    ValueError: no such module, or it does not say how to make an instance.
  """
  module = _module('drafter', name)
  if hasattr(module, 'example'):
    return Subject(name, module.example)
  if hasattr(module, 'load'):
    raise ValueError(
      f'{name} has load(), which needs settings that only you know. Add to it:\n'
      f'  {EXAMPLES["drafter"]}'
    )
  _check_defaults(module, 'drafter', name, known=('vocab_size',))

  def make(model: Model):
    known = {'vocab_size': model.target.vocab_size}
    needed = {field: known[field] for field in _required(module.Drafter)}
    made = module.Drafter(**needed)
    if not hasattr(made, 'init_params'):
      return made, None
    return made, made.init_params(jax.random.key(0), model.target)

  return Subject(name, make)


@functools.cache
def verifier(name: str) -> Subject:
  """The verifier of a module: its `example()`, else `Verifier` with its defaults.

  Raises:
    ValueError: see `drafter`.
  """
  module = _module('verifier', name)
  if hasattr(module, 'example'):
    return Subject(name, module.example)
  _check_defaults(module, 'verifier', name, known=())
  return Subject(name, module.Verifier)


def _module(kind: str, name: str) -> ModuleType:
  own, ours = name, f'specjax.{kind}s.{name}'
  for path in [own] if '.' in name else [ours, own]:
    try:
      return importlib.import_module(path)
    except ModuleNotFoundError as error:
      if not f'{path}.'.startswith(f'{error.name}.'):
        raise  # the module is there, and what it imports is not
  raise ValueError(
    f'--{kind}={name}: there is no such module. Give the dotted path of one that '
    f'Python finds from this directory, or the name of one in specjax.{kind}s'
  )


def _check_defaults(module: ModuleType, kind: str, name: str, known) -> None:
  alias = kind.capitalize()
  if not hasattr(module, alias):
    raise ValueError(
      f'--{kind}={name}: {module.__file__} has neither example() nor {alias}. Name '
      f'your class there: {alias} = MyClass'
    )
  unknown = [field for field in _required(getattr(module, alias)) if field not in known]
  if unknown:
    raise ValueError(
      f'--{kind}={name}: {alias} needs {", ".join(unknown)}. Give them defaults, or '
      f'add to the module:\n  {EXAMPLES[kind]}'
    )


def _required(make: Callable) -> list[str]:
  """The arguments without a default."""
  parameters = inspect.signature(make).parameters
  return [name for name, p in parameters.items() if p.default is p.empty]
