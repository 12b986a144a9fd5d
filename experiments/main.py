"""Runs an experiment config; kept short, the work is in the module it names.

python -m experiments.main --config=configs/experiments/demo.py --workdir=DIR
"""

import logging
import sys

from absl import app, flags
from ml_collections import config_flags

from experiments import methods, rundir

_CONFIG = config_flags.DEFINE_config_file(
  'config', None, 'Experiment config.', lock_config=True
)
_WORKDIR = flags.DEFINE_string('workdir', None, 'Where results go; must be new.')
flags.mark_flags_as_required(['config', 'workdir'])


def parse(argv: list[str]) -> list[str]:
  """What argv holds besides flags; a wrong field of the config ends in one line."""
  try:
    return app.parse_flags_with_usage(argv)
  except (AttributeError, KeyError) as error:
    reason: BaseException = error
    while isinstance(reason.args[0], BaseException):
      reason = reason.args[0]
    sys.exit(f'--config: no field {reason.args[0]} (fields: see the config file)')


def main(argv: list[str]) -> None:
  logging.getLogger('jax').setLevel(logging.WARNING)
  if len(argv) > 1:
    sys.exit(f'unknown arguments {argv[1:]}: overrides are --config.field=value')
  try:
    config = _CONFIG.value
    overrides = config_flags.get_override_values(flags.FLAGS['config'])
    experiment = methods.find('experiments', config.experiment, 'run')
    workdir = rundir.create(str(_WORKDIR.value), config, overrides)
    experiment.run(config, workdir)
  except (ValueError, OSError) as error:
    sys.exit(str(error))
  rundir.finish(workdir)


if __name__ == '__main__':
  app.run(main, flags_parser=parse)
