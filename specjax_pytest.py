"""pytest --drafter=package.module: the contract of specjax, run on a module of yours.

Every pytest run of the environment loads this file, of other projects too. So it stands
outside the package, whose import would import jax, and it does nothing unless asked.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

KINDS = 'drafter', 'verifier'


def pytest_addoption(parser):
  """Adds --drafter and --verifier."""
  group = parser.getgroup('specjax', 'specjax: contract tests')
  for kind in KINDS:
    group.addoption(
      f'--{kind}',
      dest=f'specjax_{kind}',
      action='append',
      default=[],
      metavar='MODULE',
      help=f'test the {kind} of this module (a,b or several times: of each)',
    )


def pytest_configure(config):
  """Takes the contract for the tests to run, where none are named."""
  asked = [kind for kind in KINDS if config.getoption(f'specjax_{kind}')]
  if not asked or config.getoption('file_or_dir'):
    return
  package = importlib.util.find_spec('specjax')
  assert package is not None and package.origin is not None
  tests = Path(package.origin).parent / 'testing'
  config.args = [str(tests / f'{kind}_contract.py') for kind in asked]
  sys.path.insert(0, str(config.invocation_params.dir))


def pytest_generate_tests(metafunc):
  """One subject of the contract's tests for each module asked for."""
  name = metafunc.module.__name__
  kind = name.removeprefix('specjax.testing.').removesuffix('_contract')
  if name != f'specjax.testing.{kind}_contract' or kind not in KINDS:
    return
  from specjax.testing import subjects

  given = ','.join(metafunc.config.getoption(f'specjax_{kind}')).split(',')
  names = [name.strip() for name in given if name.strip()]
  try:
    tested = [getattr(subjects, kind)(name) for name in names]
  except ValueError as error:
    raise pytest.Collector.CollectError(str(error)) from None
  metafunc.parametrize('subject', tested, ids=names)
