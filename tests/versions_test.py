import traceback
from importlib import metadata

import pytest

from specjax import versions


def fail_with(error):
  def importer(name):
    assert name == 'flax.nnx'
    raise error

  return importer


def test_a_pair_that_works_passes():
  imported = []
  versions.check(imported.append)
  assert imported == ['flax.nnx']


def test_the_installed_pair_passes():
  versions.check()


@pytest.mark.parametrize(
  'error',
  [
    AttributeError("module 'jax.core' has\nno attribute 'x'"),
    ImportError("cannot import name 'x' from 'jax'"),
    RuntimeError(),
  ],
)
def test_one_line_names_the_installed_pair_and_the_pairs_that_work(error):
  installed = {'jax': '0.11.2', 'flax': '0.12.9'}
  with pytest.raises(ImportError) as raised:
    versions.check(fail_with(error), installed.__getitem__)
  message = str(raised.value)
  assert 'jax 0.11.2 + flax 0.12.9' in message
  assert type(error).__name__ in message
  for jax, flax in versions.WORKING_PAIRS:
    assert f'jax {jax} + flax {flax}' in message
  assert '\n' not in message


def test_a_missing_package_is_named():
  def version(package):
    if package == 'flax':
      raise metadata.PackageNotFoundError(package)
    return '0.11.2'

  error = ModuleNotFoundError("No module named 'flax'")
  with pytest.raises(ImportError, match=r'jax 0\.11\.2 \+ flax \(not installed\)'):
    versions.check(fail_with(error), version)


def test_the_traceback_leaves_the_failed_import_out():
  with pytest.raises(ImportError) as raised:
    versions.check(fail_with(AttributeError('inner')), lambda package: '1')
  shown = ''.join(traceback.format_exception(raised.value))
  assert 'in importer' not in shown
  assert 'During handling' not in shown
