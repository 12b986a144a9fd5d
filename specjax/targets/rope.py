"""Rotary positions (arXiv 2104.09864, half-split form) and how they are stretched.

Pair i of a head turns by theta ** (-2 i / D) a position. A stretched model divides the
frequency by `factor` in the pairs that it does not keep:

  linear  none is kept: position interpolation, arXiv 2306.15595
  llama3  those that turn often within the trained context are: above `fast` turns kept,
          below `slow` divided, mixed in between; Llama 3.1, arXiv 2407.21783
  yarn    the same by pair, not by turns: mixed from the pair that turns `fast` times to
          the one that turns `slow` times; and longer vectors, arXiv 2309.00071
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from specjax.types import Array

# config.json's keys of each kind; the first ones are required.
_REQUIRED = {
  'default': (),
  'linear': ('factor',),
  'llama3': ('factor', 'low_freq_factor', 'high_freq_factor'),
  'yarn': ('factor',),
}
_OPTIONAL = {
  'llama3': ('original_max_position_embeddings',),
  'yarn': (
    'original_max_position_embeddings',
    'beta_fast',
    'beta_slow',
    'attention_factor',
    'mscale',
    'mscale_all_dim',
    'truncate',
  ),
}


@dataclasses.dataclass(frozen=True)
class Rope:
  """One kind of rotation, as constants."""

  theta: float = 10000.0
  kind: str = 'default'  # a key of _REQUIRED
  factor: float = 1.0
  trained: int = 0  # positions of the context that was trained before stretching
  slow: float = 1.0  # turns within it
  fast: float = 1.0
  truncate: bool = True  # yarn: the mixed range begins and ends at whole pairs
  amplitude: float = 1.0  # length of what is rotated


def parse(
  parameters: Mapping[str, Any],
  *,
  theta: float,
  max_positions: int,
  trained: int | None,
) -> Rope:
  """Reads `rope_scaling` or `rope_parameters` of Hugging Face's config.json.

  Args:
    parameters: the dictionary; empty if there is none.
    theta: where the dictionary has no `rope_theta`.
    max_positions: `max_position_embeddings`, what the trained context is by default.
    trained: `original_max_position_embeddings` beside the dictionary; it goes first.

  Raises:
    ValueError: a kind that is not known, a key that it lacks or does not know.
  """
  given = {key: value for key, value in parameters.items() if value is not None}
  kind = given.pop('rope_type', given.pop('type', 'default'))
  theta = float(given.pop('rope_theta', theta))
  _check(kind, given)
  if kind == 'default':
    return Rope(theta)
  factor = float(given['factor'])
  if kind == 'linear':
    return Rope(theta, kind, factor)
  trained = trained or given.get('original_max_position_embeddings') or max_positions
  if kind == 'llama3':
    slow, fast = given['low_freq_factor'], given['high_freq_factor']
    return Rope(theta, kind, factor, trained, float(slow), float(fast))
  return Rope(
    theta,
    kind,
    factor,
    trained,
    slow=float(given.get('beta_slow') or 1),
    fast=float(given.get('beta_fast') or 32),
    truncate=given.get('truncate', True),
    amplitude=_amplitude(factor, given),
  )


def _check(kind: str, given: dict[str, Any]) -> None:
  if kind not in _REQUIRED:
    raise ValueError(
      f'rope_type = {kind!r} is not supported, only ' + ', '.join(sorted(_REQUIRED))
    )
  if given.pop('partial_rotary_factor', 1.0) != 1.0:
    raise ValueError('partial_rotary_factor is supported as 1.0 only: whole heads')
  absent = [key for key in _REQUIRED[kind] if key not in given]
  unknown = sorted(set(given) - {*_REQUIRED[kind], *_OPTIONAL.get(kind, ())})
  if absent or unknown:
    raise ValueError(
      f'rope_type {kind!r} lacks {absent or "nothing"} and does not know '
      f'{unknown or "nothing"} of what config.json gives it'
    )


def _amplitude(factor: float, given: Mapping[str, Any]) -> float:
  """Yarn's 0.1 ln(factor) + 1 (section 3.4), or what config.json says in its place."""
  if 'attention_factor' in given:
    return float(given['attention_factor'])
  longer = lambda scale: 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0
  if given.get('mscale') and given.get('mscale_all_dim'):
    return longer(given['mscale']) / longer(given['mscale_all_dim'])
  return longer(1.0)


def frequencies(rope: Rope, head_dim: int) -> np.ndarray:
  """What each pair turns a position, in radians: float64[D/2]."""
  turn = rope.theta ** (-2 * np.arange(head_dim // 2) / head_dim)
  kept = np.zeros_like(turn)
  if rope.kind == 'llama3':
    turns = rope.trained * turn / (2 * np.pi)
    kept = np.clip((turns - rope.slow) / (rope.fast - rope.slow), 0, 1)
  elif rope.kind == 'yarn':
    kept = 1 - _ramp(rope, head_dim)
  return turn * (kept + (1 - kept) / rope.factor)


def _ramp(rope: Rope, head_dim: int) -> np.ndarray:
  """0 for the pairs that turn `fast` times or more, 1 from `slow` on: float64[D/2]."""
  pair_of = lambda turns: (
    head_dim
    * math.log(rope.trained / (turns * 2 * math.pi))
    / (2 * math.log(rope.theta))
  )
  first, last = pair_of(rope.fast), pair_of(rope.slow)
  if rope.truncate:
    first, last = math.floor(first), math.ceil(last)
  first, last = max(first, 0), min(last, head_dim - 1)
  width = last - first or 0.001
  return np.clip((np.arange(head_dim // 2) - first) / width, 0, 1)


def rotary(positions: Array, rope: Rope, head_dim: int, dtype) -> tuple[Array, Array]:
  """Cosines and sines [B, 1, T, D/2] at positions int32[B, T]."""
  turn = jnp.asarray(frequencies(rope, head_dim), dtype)
  angle = positions[:, None, :, None].astype(dtype) * turn
  return jnp.cos(angle) * rope.amplitude, jnp.sin(angle) * rope.amplitude


def rotate(x: Array, turned: tuple[Array, Array]) -> Array:
  """Turns the pairs (x[i], x[i + D/2]) of x [B, heads, T, D]."""
  cos, sin = turned
  left, right = jnp.split(x, 2, axis=-1)
  halves = [left * cos - right * sin, right * cos + left * sin]
  return jnp.concatenate(halves, axis=-1).astype(x.dtype)
