"""Whole texts with a drafter under test: what the contract compares and counts."""

import functools

import jax
import numpy as np

from specjax import api, decoding
from specjax.model import Model
from specjax.testing import rounds
from specjax.testing.subjects import Subject
from specjax.testing.table import table_model
from specjax.types import DecodeState
from specjax.verifiers.rejection import Rejection

NEW, SMALL = 4, 3  # tokens of an enumerated text, and its vocabulary
table = functools.cache(table_model)
decode = rounds.jit(decoding.decode, static_argnums=(0, 1, 2), donate_argnums=(4,))

SETTINGS = dict(
  max_new_tokens=[24, 9, 20, 24, 1, 24],
  seed=[1, 2, 3, 2**32 - 1, 5, 6],
  stop_ids=(),
)
WARPINGS = dict(temperature=[0.0, 1.0, 0.7, 1.4, 1.0, 0.5], top_p=[1, 1, 1, 0.9, 1, 1])


def model_for(subject: Subject) -> Model:
  """A table, whose laws are exact, or the tiny model where the drafter refuses it."""
  return rounds.tiny() if refusal(subject, table(11)) else table(11)


def refusal(subject: Subject, model: Model) -> str | None:
  """Why the drafter does not work with this target."""
  try:
    subject.make(model)
  except ValueError as error:
    return str(error)
  return None


@functools.cache
def plain(model: Model, verifier) -> list[list[int]]:
  """Autoregressive texts of the prompts."""
  return texts(model, None, verifier, None)


def texts(model: Model, drafter, verifier, own) -> list[list[int]]:
  """Texts of the prompts, greedy or warped as the verifier allows."""
  warping = {} if verifier.greedy_only else WARPINGS
  settings = SETTINGS | warping
  run = api.begin(model, rounds.PROMPTS, drafter, verifier, own, **settings)
  return [done.tokens for done in api.completions(model, run, finished(run))]


def finished(run: api.Run) -> DecodeState:
  """The state at the end of a run."""
  return decode(run.target, run.drafter, run.verifier, run.params, run.state)


PARTS = [  # of a sampled batch: (prompt, warping)
  ([2, 0, 1, 2, 2, 0, 1, 2], dict(temperature=1.0, top_k=0)),
  ([1, 1, 0], dict(temperature=1.7, top_k=2)),
]


def sampled(subject: Subject, model: Model, rows: int, moved=False) -> np.ndarray:
  """What each row of the parts emits, int[parts * rows, 2, NEW]: tokens and trace.

  With rejection, which corrects for q. If `moved`, the batch stands in reverse order
  and every second row has another seed.
  """
  drafter, own = subject.make(model)
  prompts = [prompt for prompt, _ in PARTS for _ in range(rows)]
  warping = {
    name: np.repeat([warping[name] for _, warping in PARTS], rows)
    for name in PARTS[0][1]
  }
  seeds = np.arange(len(prompts))
  if moved:
    prompts, seeds = prompts[::-1], (seeds + seeds % 2 * 10**6)[::-1]
    warping = {name: values[::-1] for name, values in warping.items()}
  run = api.begin(
    model,
    prompts,
    drafter,
    Rejection(),
    own,
    max_new_tokens=NEW,
    stop_ids=(),
    seed=seeds,
    max_len=max(map(len, prompts)) + NEW,
    **warping,
  )
  state = jax.device_get(finished(run))
  index = np.array(run.prompt_lengths)[:, None] + np.arange(NEW)
  emitted = [np.take_along_axis(x, index, 1) for x in (state.tokens, state.trace)]
  emitted = np.stack(emitted, axis=1)
  return emitted[::-1] if moved else emitted
