"""From a config's method dicts to drafters and verifiers.

`name` is a module: 'medusa' is specjax.drafters.medusa, a dotted path is the user's
own. Its alias `Drafter` (or `Verifier`) is a frozen dataclass, and everything that
stands beside `name` is one of its fields.
"""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from specjax import api


@dataclasses.dataclass(frozen=True)
class Method:
  """One row of the comparison."""

  name: str
  drafter: Any
  verifier: Any
  temperature: float


def parse(
  methods: Mapping[str, Mapping], temperature: float, vocab_size: int
) -> dict[str, Method]:
  """All methods of a config, in its order.

  Args:
    methods: {name: dict(drafter=..., verifier=..., temperature=...)}.
    temperature: of the methods that do not have their own.
    vocab_size: the target's, for drafters with such a field.

  Raises:
    ValueError: an unknown name or hyper-parameter, with the known ones.
  """
  return {
    name: _method(name, settings, temperature, vocab_size)
    for name, settings in methods.items()
  }


def choose(methods: Mapping[str, Method], only: str) -> list[Method]:
  """The methods named in `only` ('a,b'; '' = all) and their baselines.

  Raises:
    ValueError: `only` names an unknown method; a method has no baseline.
  """
  names = [name.strip() for name in only.split(',') if name.strip()] or list(methods)
  unknown = [name for name in names if name not in methods]
  if unknown:
    raise ValueError(f'only: no method {unknown[0]!r}; known: {", ".join(methods)}')
  baselines = {baseline_of(methods[name], methods.values()).name for name in names}
  return [m for m in methods.values() if m.name in names or m.name in baselines]


def baseline_of(method: Method, methods: Iterable[Method]) -> Method:
  """What a method's speed-up is against: plain decoding at the same temperature."""
  for other in methods:
    if other.drafter.num_draft == 0 and other.temperature == method.temperature:
      return other
  raise ValueError(
    f'{method.name} runs at temperature {method.temperature}, and no method decodes '
    "plainly there: add one with drafter=dict(name='autoregressive') and temperature="
    f'{method.temperature}'
  )


def build(package: str, alias: str, settings: Mapping, **known):
  """An instance of the dataclass that settings['name'] names.

  Args:
    package: where short names are looked up, 'specjax.drafters'.
    alias: the class's name in its module, 'Drafter'.
    settings: `name` and hyper-parameters.
    known: values for fields without default that the settings leave out.

  Raises:
    ValueError: an unknown name; a wrong or missing hyper-parameter.
  """
  given = {
    key: tuple(value) if isinstance(value, list) else value
    for key, value in settings.items()
    if key != 'name'
  }
  if not isinstance(settings.get('name'), str):
    raise ValueError(f'{alias.lower()} has no name: {dict(settings)}')
  cls = getattr(find(package, settings['name'], alias), alias)
  fields = {field.name: field for field in dataclasses.fields(cls)}
  needed = [
    name
    for name, field in fields.items()
    if field.default is field.default_factory is dataclasses.MISSING
  ]
  given = {k: v for k, v in known.items() if k in needed} | given
  wrong = [name for name in given if name not in fields]
  missing = [name for name in needed if name not in given]
  if wrong or missing:
    takes = str(inspect.signature(cls)).removesuffix(' -> None')
    complaint = f'does not take {wrong[0]!r}' if wrong else f'needs {missing[0]!r}'
    raise ValueError(f'{settings["name"]} {complaint}; it takes {takes}')
  return cls(**given)


def find(package: str, name: str, attribute: str) -> ModuleType:
  """The module `name` of a package, or at a dotted path, that has an attribute.

  Raises:
    ValueError: there is none; lists those of the package.
  """
  path = name if '.' in name else f'{package}.{name}'
  try:
    module = importlib.import_module(path)
  except ModuleNotFoundError as error:
    if not f'{path}.'.startswith(f'{error.name}.'):
      raise  # the module is there, and what it imports is not
    module = None
  if module is not None and hasattr(module, attribute):
    return module
  folder = importlib.import_module(package).__path__
  known = ', '.join(found.name for found in pkgutil.iter_modules(folder))
  reason = 'there is no such module' if module is None else f'it has no {attribute}'
  raise ValueError(f'{path}: {reason}; in {package}: {known}')


def _method(
  name: str, settings: Mapping, temperature: float, vocab_size: int
) -> Method:
  known = ('drafter', 'verifier', 'temperature')
  wrong = [key for key in settings if key not in known]
  if wrong or 'drafter' not in settings:
    raise ValueError(
      f'method {name} has {", ".join(settings)}; it needs drafter and may have '
      'verifier and temperature'
    )
  temperature = float(settings.get('temperature', temperature))
  try:
    drafter = build(
      'specjax.drafters', 'Drafter', settings['drafter'], vocab_size=vocab_size
    )
    if 'verifier' in settings:
      verifier = build('specjax.verifiers', 'Verifier', settings['verifier'])
    else:
      verifier = api.default_verifier(temperature)
    if verifier.greedy_only and temperature > 0:
      raise ValueError(
        f'{settings["verifier"]["name"]} is exact at temperature 0 only, not at '
        f'{temperature}; use gumbel or rejection'
      )
  except ValueError as error:
    raise ValueError(f'method {name}: {error}') from error
  return Method(name, drafter, verifier, temperature)
