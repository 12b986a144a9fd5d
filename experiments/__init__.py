"""Commands that measure; each is run as `python -m experiments.NAME`.

Compiled programs are kept in .jax_cache, or where JAX_COMPILATION_CACHE_DIR says.
"""

import os
import pathlib

# Before jax is imported: it reads the environment once.
os.environ.setdefault(
  'JAX_COMPILATION_CACHE_DIR',
  str(pathlib.Path(__file__).resolve().parent.parent / '.jax_cache'),
)
