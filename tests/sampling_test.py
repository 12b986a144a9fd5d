"""The warp against an independent one that sorts, in float64."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import sampling
from specjax.testing import laws

OFF = dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
INF = np.inf
CHOICES = dict(
  temperature=(0.0, 0.3, 1.0, 2.5),
  top_k=(0, 1, 3, 50, 2**31 - 1),
  top_p=(1.0, 0.9, 0.5, 1e-6),
  min_p=(0.0, 0.05, 0.9),
)
warp = jax.jit(sampling.warp)


def warped(logits, settings: list[dict]) -> np.ndarray:
  """The library's probabilities for logits [B, T, V] and a setting a row."""
  logits = jnp.asarray(logits, jnp.float32)
  by_name = {name: [row[name] for row in settings] for name in OFF}
  return np.exp(warp(logits, sampling.make_sampling(len(settings), **by_name)))


def reference(logits, settings: list[dict]) -> np.ndarray:
  logits = np.asarray(logits, np.float32)
  return np.array(
    [[laws.warped(x, **row) for x in rows] for rows, row in zip(logits, settings)]
  )


def on_the_edge(logits, settings: dict) -> bool:
  """Whether a rounding error in the summed mass may keep one token more or less."""
  both = [settings | dict(top_p=settings['top_p'] * (1 + e)) for e in (1e-5, -1e-5)]
  few, many = (np.count_nonzero(laws.warped(logits, **setting)) for setting in both)
  return few != many


@pytest.mark.parametrize('vocab_size', [1, 2, 5, 64, 1000])
def test_equals_the_sorting_reference_row_by_row(vocab_size):
  rng = np.random.default_rng(vocab_size)
  smooth = 3 * rng.normal(size=(100, 2, vocab_size))
  tied = rng.integers(-4, 4, size=smooth.shape)
  logits = np.concatenate([smooth, tied]).astype(np.float32)
  draw = lambda: {name: rng.choice(values) for name, values in CHOICES.items()}
  settings = [draw() for _ in logits]
  clear = np.array(
    [[not on_the_edge(x, row) for x in rows] for rows, row in zip(logits, settings)]
  )
  assert clear.mean() > 0.9
  got, want = warped(logits, settings), reference(logits, settings)
  np.testing.assert_array_equal((got > 0)[clear], (want > 0)[clear])
  np.testing.assert_allclose(got[clear], want[clear], atol=2e-6, rtol=1e-4)
  np.testing.assert_allclose(got.sum(-1), 1, rtol=1e-5)
  greedy = np.array([row['temperature'] == 0 for row in settings])
  np.testing.assert_array_equal(got[greedy], want[greedy])


ABOVE_ONE = np.nextafter(np.float32(1), np.float32(2))
LOW = np.float32(-1.2345678)  # its bits are no round number: a search must end exactly
LOWER = np.nextafter(LOW, np.float32(-2))
E = np.exp(LOW)
EXTREME = [
  ([0, 0, 0, 0], dict(top_k=1), [1 / 4] * 4),  # ties stay together
  ([0, 0, 0, 0], dict(top_p=0.1), [1 / 4] * 4),
  ([0, 0, 0, 0], dict(min_p=0.999), [1 / 4] * 4),
  ([0, 0, 0, 0], dict(temperature=0), [1, 0, 0, 0]),  # but greedy takes the first
  ([0, -INF, 0, -INF], dict(), [1 / 2, 0, 1 / 2, 0]),
  ([0, -INF, 0, -INF], dict(top_k=3), [1 / 2, 0, 1 / 2, 0]),
  ([0, -INF, -INF, -INF], dict(top_p=0.5, min_p=0.5), [1, 0, 0, 0]),
  ([1e30, 1e30, 0, -1e30], dict(top_k=3), [1 / 2, 1 / 2, 0, 0]),
  ([-1e30, -1e30, -2e30, -INF], dict(top_k=2), [1 / 2, 1 / 2, 0, 0]),
  ([3e38, -3e38, -3e38, -3e38], dict(top_k=2, top_p=0.5), [1, 0, 0, 0]),
  ([ABOVE_ONE, 1, ABOVE_ONE, 1], dict(top_k=2), [1 / 2, 0, 1 / 2, 0]),
  ([ABOVE_ONE, 1, ABOVE_ONE, 1], dict(top_p=0.4), [1 / 2, 0, 1 / 2, 0]),
  ([-1, -ABOVE_ONE, -1, -ABOVE_ONE], dict(top_k=1), [1 / 2, 0, 1 / 2, 0]),
  ([1e-30, -1e-30, 1e-30, -1e-30], dict(top_k=2), [1 / 2, 0, 1 / 2, 0]),
  ([0.0, -0.0, 0.0, -1e-30], dict(top_k=1), [1 / 3, 1 / 3, 1 / 3, 0]),
  ([0, LOW, LOWER, LOWER], dict(top_k=2), [1 / (1 + E), E / (1 + E), 0, 0]),
  ([0, LOWER, LOW, LOWER], dict(top_p=0.6), [1 / (1 + E), 0, E / (1 + E), 0]),
  ([20, 19, 0, -20], dict(temperature=2e-38), [1, 0, 0, 0]),
  ([20, 20, 0, -20], dict(temperature=1e-44), [1, 0, 0, 0]),  # 0 to the device
  ([30, 20, 10, 0], dict(temperature=1e37), [1 / 4] * 4),
]


def test_extreme_values():
  logits = [[logits] for logits, _, _ in EXTREME]
  got = warped(logits, [OFF | setting for _, setting, _ in EXTREME])[:, 0]
  for row, (logits, setting, want) in zip(got, EXTREME):
    np.testing.assert_allclose(row, want, rtol=1e-5, err_msg=f'{logits} {setting}')


def test_a_row_is_warped_by_its_own_settings_alone():
  rng = np.random.default_rng(0)
  logits = np.tile(rng.normal(size=(1, 2, 64)), (200, 1, 1))
  draw = lambda: {name: rng.choice(values) for name, values in CHOICES.items()}
  settings = [draw() for _ in logits]
  mixed = warped(logits, settings)
  for row in range(0, 200, 23):
    np.testing.assert_array_equal(warped(logits, [settings[row]] * 200)[0], mixed[row])


@pytest.mark.parametrize(
  'setting',
  [
    dict(temperature=-0.1),
    dict(temperature=np.inf),
    dict(temperature=np.nan),
    dict(temperature=[1.0, -1.0]),
    dict(temperature=[1.0]),
    dict(temperature=[1.0, 1.0, 1.0]),
    dict(top_k=-1),
    dict(top_k=1.5),
    dict(top_k=2**31),
    dict(top_k=np.nan),
    dict(top_p=0.0),
    dict(top_p=1.01),
    dict(top_p=np.nan),
    dict(min_p=-0.01),
    dict(min_p=1.0),
    dict(min_p=np.nan),
    dict(min_p=[[0.1, 0.1]]),
  ],
)
def test_bad_settings_are_refused_by_name(setting):
  (name,) = setting
  with pytest.raises(ValueError, match=name):
    sampling.make_sampling(2, **setting)


def test_one_setting_stands_for_every_row():
  got = sampling.make_sampling(3, temperature=0.5, top_k=[1, 2, 3])
  np.testing.assert_array_equal(got.temperature, np.float32([0.5] * 3))
  np.testing.assert_array_equal(got.top_k, np.int32([1, 2, 3]))
  np.testing.assert_array_equal(got.top_p, np.float32([1] * 3))


def sorts(function, *args) -> bool:
  program = jax.jit(function).lower(*args).compile().as_text()
  return re.search(r'\b(sort|topk)\(|"TopK"', program) is not None


def test_compiles_to_no_sort():
  logits = jnp.zeros((2, 3, 500))
  assert sorts(jnp.sort, logits)
  assert sorts(lambda x: jax.lax.top_k(x, 5), logits)
  assert not sorts(sampling.warp, logits, sampling.make_sampling(2, top_k=5))
