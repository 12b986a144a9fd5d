"""From a config's method dicts to drafters and verifiers.

`name` is a module: 'medusa' is specjax.drafters.medusa, a dotted path is the user's
own. Its alias `Drafter` (or `Verifier`) is a frozen dataclass, and everything that
stands beside `name` is one of its fields. A drafter with arrays of its own has a
function `load(model, **settings)` in its module, which returns both.
"""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from specjax import api
from specjax.model import Model


@dataclasses.dataclass(frozen=True, eq=False)
class Method:
  """One row of the comparison."""

  name: str
  drafter: Any
  verifier: Any
  temperature: float
  params: Any  # the drafter's own; None where it has none, or gets them with the text
  settings: Mapping[
    str, Mapping
  ]  # of drafter and verifier, as they stand in the config


def parse(
  methods: Mapping[str, Mapping], temperature: float, model: Model
) -> dict[str, Method]:
  """All these methods, in their order.

  Args:
    methods: {name: dict(drafter=..., verifier=..., temperature=...)}.
    temperature: of the methods that do not have their own.
    model: the target.

  Raises:
    ValueError: an unknown name or hyper-parameter, with the known ones; whatever a
      drafter finds wrong with the target or with its own files.
  """
  return {
    name: _method(name, settings, temperature, model)
    for name, settings in methods.items()
  }


def choose(
  methods: Mapping[str, Mapping], only: str, temperature: float
) -> dict[str, Mapping]:
  """The methods named in `only` ('a,b'; '' = all) and plain decoding beside each.

  Raises:
    ValueError: `only` names an unknown method.
  """
  names = [name.strip() for name in only.split(',') if name.strip()] or list(methods)
  unknown = [name for name in names if name not in methods]
  if unknown:
    raise ValueError(f'only: no method {unknown[0]!r}; known: {", ".join(methods)}')
  warmth = lambda name: methods[name].get('temperature', temperature)
  wanted: set[str] = set(names)
  plain: dict[float, str] = {}
  for name, settings in methods.items():
    if settings.get('drafter', {}).get('name') == 'autoregressive':
      plain.setdefault(warmth(name), name)
  wanted |= {plain[warmth(name)] for name in names if warmth(name) in plain}
  return {name: settings for name, settings in methods.items() if name in wanted}


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


def drafter(settings: Mapping, model: Model) -> tuple[Any, Any]:
  """The drafter that settings['name'] names, and its own params (None: it has none).

  Raises:
    ValueError: an unknown name; a wrong or missing hyper-parameter.
  """
  module = find('specjax.drafters', _name(settings, 'drafter'), 'Drafter')
  if hasattr(module, 'load'):
    return _call(module.load, settings, model=model)
  return _call(module.Drafter, settings, vocab_size=model.target.vocab_size), None


def verifier(settings: Mapping):
  """The verifier that settings['name'] names; raises as `drafter` does."""
  name = _name(settings, 'verifier')
  return _call(find('specjax.verifiers', name, 'Verifier').Verifier, settings)


def _name(settings: Mapping, what: str) -> str:
  if not isinstance(settings.get('name'), str):
    raise ValueError(f'{what} has no name: {dict(settings)}')
  return settings['name']


def _call(make, settings: Mapping, **known):
  """make(**settings) without the name; `known` fills what has no default."""
  given = {key: _frozen(value) for key, value in settings.items() if key != 'name'}
  parameters = inspect.signature(make).parameters
  needed = [name for name, p in parameters.items() if p.default is p.empty]
  given = {name: value for name, value in known.items() if name in needed} | given
  wrong = [name for name in given if name not in parameters]
  missing = [name for name in needed if name not in given]
  if wrong or missing:
    takes = ', '.join(str(p) for name, p in parameters.items() if name not in known)
    complaint = f'does not take {wrong[0]!r}' if wrong else f'needs {missing[0]!r}'
    raise ValueError(f'{settings["name"]} {complaint}; it takes ({takes})')
  return make(**given)


def _frozen(value):
  """Lists, as JSON has them, become tuples: settings are hashed."""
  return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


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
  known = ', '.join(
    found.name
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__)
    if hasattr(importlib.import_module(f'{package}.{found.name}'), attribute)
  )
  reason = 'there is no such module' if module is None else f'it has no {attribute}'
  raise ValueError(f'{path}: {reason}; in {package}: {known}')


def _method(name: str, settings: Mapping, temperature: float, model: Model) -> Method:
  known = ('drafter', 'verifier', 'temperature')
  wrong = [key for key in settings if key not in known]
  if wrong or 'drafter' not in settings:
    raise ValueError(
      f'method {name} has {", ".join(settings)}; it needs drafter and may have '
      'verifier and temperature'
    )
  temperature = float(settings.get('temperature', temperature))
  try:
    drafts, params = drafter(settings['drafter'], model)
    if 'verifier' in settings:
      verifies = verifier(settings['verifier'])
    else:
      verifies = api.default_verifier(temperature)
    if verifies.greedy_only and temperature > 0:
      raise ValueError(
        f'{settings["verifier"]["name"]} is exact at temperature 0 only, not at '
        f'{temperature}; use gumbel or rejection'
      )
  except ValueError as error:
    raise ValueError(f'method {name}: {error}') from error
  verifier_name = type(verifies).__module__.removeprefix('specjax.verifiers.')
  written = {'verifier': {'name': verifier_name}} | dict(settings)
  return Method(name, drafts, verifies, temperature, params, written)
