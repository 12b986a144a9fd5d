"""What hyper-parameters must be; said with the value that was given."""

import numbers


def whole(name: str, value, least: int) -> None:
  """Raises ValueError unless value is a whole number and at least `least`."""
  if not isinstance(value, numbers.Integral) or value < least:
    raise ValueError(
      f'{name} must be a whole number of at least {least}, got {value!r}'
    )
