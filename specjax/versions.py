"""Says in one line when the installed jax and flax do not fit each other."""

import importlib
from collections.abc import Callable
from importlib import metadata

# (jax, flax) releases known to work together.
WORKING_PAIRS = (
  ('0.10.2', '0.12.8'),
  ('0.11.2', '0.12.12'),
  ('0.12.0.1', '0.12.12'),
)


def check(
  importer: Callable[[str], object] = importlib.import_module,
  version: Callable[[str], str] = metadata.version,
) -> None:
  """Imports `flax.nnx`; if that fails, raises an ImportError of one line.

  Args:
    importer: imports a module by its name.
    version: gives the version of an installed distribution, or raises
      `PackageNotFoundError`.
  """
  try:
    importer('flax.nnx')
  except Exception as error:
    # From None: flax's own traceback says nothing to a user.
    jax, flax = _installed('jax', version), _installed('flax', version)
    raise ImportError(_message(jax, flax, error)) from None


def _installed(package: str, version: Callable[[str], str]) -> str:
  try:
    return f'{package} {version(package)}'
  except metadata.PackageNotFoundError:
    return f'{package} (not installed)'


def _message(jax: str, flax: str, error: Exception) -> str:
  pairs = ', '.join(f'jax {j} + flax {f}' for j, f in WORKING_PAIRS)
  reason = ' '.join(f'{type(error).__name__}: {error}'.split())
  return (
    f'specjax cannot import flax.nnx with {jax} + {flax} ({reason}); '
    f'pairs that work: {pairs}'
  )
