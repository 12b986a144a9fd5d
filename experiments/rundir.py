"""The directory of one run: what was asked, where it ran, and that it ended.

`config.json`, `overrides.json` and `env.json` are written first, `done` last. A run
that was killed goes on in the same directory, if what was asked and where it runs are
the same; what an experiment finds there it keeps or starts over.
"""

import contextlib
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import IO

import jax

FIRST = 'config.json', 'overrides.json', 'env.json'
PACKAGES = 'jax', 'jaxlib', 'flax', 'optax', 'numpy', 'tokenizers', 'specjax-lab'


def create(workdir: str | Path, config, overrides: Mapping) -> Path:
  """Makes the directory and says what will run there.

  Raises:
    ValueError: it holds a finished run, or an unfinished one of something else.
  """
  path = Path(workdir)
  path.mkdir(parents=True, exist_ok=True)
  if (path / 'done').exists():
    raise ValueError(
      f'{path} already holds a finished run: choose another --workdir or delete it'
    )
  asked = json.loads(config.to_json()), json.loads(json.dumps(dict(overrides)))
  contents = *asked, environment() | {'files_sha256': _files(asked[0])}
  if any(file.name not in FIRST for file in path.iterdir()):
    _check_same(path, dict(zip(FIRST, contents)))
  for name, content in zip(FIRST, contents):
    write_json(path / name, content)
  return path


def _check_same(path: Path, wanted: Mapping[str, dict]) -> None:
  """Refuses to go on with an unfinished run that another one left."""
  for name, now in wanted.items():
    try:
      then = json.loads((path / name).read_text())
    except (OSError, ValueError) as error:
      raise ValueError(
        f'{path} holds files, but no {name} of a run: choose another --workdir'
      ) from error
    differing = sorted(k for k in now.keys() | then.keys() if now.get(k) != then.get(k))
    if differing:
      field = differing[0]
      raise ValueError(
        f'{path} holds an unfinished run with another {field} in {name}: '
        f'{then.get(field)!r}, now {now.get(field)!r}; go on as it began, choose '
        'another --workdir, or delete it'
      )


def finish(workdir: Path) -> None:
  """Marks the run as complete."""
  (workdir / 'done').touch()


def environment() -> dict:
  """Code, versions, device and flags: what else a number depends on."""
  device, changes = jax.devices()[0], _git('diff', 'HEAD')
  return {
    'git_revision': _git('rev-parse', 'HEAD'),
    'git_dirty': None if changes is None else bool(changes),
    'git_diff_sha256': changes and hashlib.sha256(changes.encode()).hexdigest(),
    'cpu': _cpu(),
    'python': platform.python_version(),
    'versions': {name: _version(name) for name in PACKAGES},
    'platform': device.platform,
    'device': device.device_kind,
    'device_count': jax.device_count(),
    'machine': platform.machine(),
    'cpu_count': os.cpu_count(),
    'flags': {k: v for k, v in os.environ.items() if k.startswith(('XLA_', 'JAX_'))},
  }


def _files(config: Mapping) -> dict[str, str]:
  """What the files that a config names hold: prompts, and what was trained on."""
  named = [config.get('prompts'), *(config.get('trained_on') or ())]
  paths = [Path(name) for name in named if name and Path(name).is_file()]
  return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


def _cpu() -> str | None:
  """The processor's name, where Linux tells it."""
  info = Path('/proc/cpuinfo')
  lines = info.read_text().splitlines() if info.exists() else []
  return next((x.split(':')[1].strip() for x in lines if 'model name' in x), None)


def write_json(path: Path, content) -> None:
  """Indented, with a newline at the end, all at once; NaN is an error."""
  beside = path.with_name(f'{path.name}.new')
  with opened(beside, 'w') as file:
    file.write(json.dumps(content, indent=2, allow_nan=False) + '\n')
  os.replace(beside, path)


def append_lines(path: Path, rows: Iterable[Mapping]) -> None:
  """Adds rows to a JSONL file; they are on disk when this returns."""
  with opened(path, 'a') as file:
    file.writelines(json.dumps(row, allow_nan=False) + '\n' for row in rows)


@contextlib.contextmanager
def opened(path: Path, mode: str) -> Iterator[IO[str]]:
  """An open text file; an error says which one: a full disk alone does not."""
  try:
    with path.open(mode, encoding='utf-8', newline='\n') as file:
      yield file
  except OSError as error:
    raise OSError(f'{path} could not be written: {error.strerror}') from error


def _git(*command: str) -> str | None:
  """Output of a git command at this code, None where there is no repository."""
  here = Path(__file__).parent
  try:
    run = subprocess.run(
      ['git', *command], cwd=here, capture_output=True, text=True, check=True
    )
  except (OSError, subprocess.CalledProcessError):
    return None
  return run.stdout.strip()


def _version(package: str) -> str | None:
  try:
    return metadata.version(package)
  except metadata.PackageNotFoundError:
    return None
