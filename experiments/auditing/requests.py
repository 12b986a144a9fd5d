"""What rows are asked for, and the exact law of their texts over V tokens.

A batch holds groups of rows. All rows of a group have one request, so that their texts
have one law, and seeds of their own. `Promise` is the law behind any two tokens, which
the target's float32 log-probabilities are made of where there is no target.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from specjax import decoding
from specjax.model import Model
from specjax.sampling import make_sampling
from specjax.testing import laws
from specjax.testing.layered_table import layered_model
from specjax.testing.subjects import Subject
from specjax.testing.table import table_model
from specjax.types import DecodeState, Params

V = 3


@dataclasses.dataclass(frozen=True)
class Request:
  """One group's."""

  prompt: tuple[int, ...]
  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0
  bias: tuple[float, ...] = (0.0,) * V
  stop: int = -1  # a token that ends the text
  share: int = 5  # of a batch's rows

  @property
  def rules(self) -> dict:
    """How logits become a law, as `laws.warped` takes it."""
    names = 'temperature', 'top_k', 'top_p', 'min_p'
    return {name: getattr(self, name) for name in names}

  @property
  def last_two(self) -> tuple[int, int]:
    """The tokens that the law behind the prompt depends on."""
    before, last = (0, *self.prompt)[-2:]
    return before, last

  def law(self, table: np.ndarray) -> np.ndarray:
    """Of the next token behind any two, float64[V, V, V]; table has their logits."""
    return np.apply_along_axis(
      laws.warped, -1, table + np.array(self.bias), **self.rules
    )

  def text_law(self, table: np.ndarray, length: int) -> np.ndarray:
    """Of the text behind the prompt, float64[V ** length]; see `texts` for its cells.

    Behind a stop token stand zeros.
    """
    biased = table + np.array(self.bias)
    law = laws.sequence_law(biased, self.prompt, length, **self.rules)
    text = np.indices((V,) * length).reshape(length, -1).T
    stops = text == self.stop
    over = np.cumsum(stops, axis=1) > stops
    return np.bincount(cells(np.where(over, 0, text)), law, minlength=len(law))


LONG, SHORT = (2, 0, 1, 2, 2, 0, 1, 2), (1, 1, 0)
REQUESTS = (
  Request(LONG),
  Request(SHORT, temperature=1.7, top_k=2, bias=(0.5, 0.0, 0.0)),
  Request(LONG, temperature=2.0, top_p=0.8),
  Request(SHORT, temperature=1.5, min_p=0.2),
  Request(LONG, bias=(0.0, 1.0, -np.inf)),
  Request(LONG, temperature=0.0, share=2),
  Request(SHORT, temperature=0.0, top_k=2, top_p=0.5, bias=(0.5, 0, 0), share=2),
  # Few rows, since many of them end in their first round.
  Request(SHORT, bias=(0.0, -1.5, 0.0), stop=1, share=1),
  Request(LONG, temperature=0.7, top_p=0.9, bias=(-2.0, 0.0, 0.0), stop=0, share=1),
  Request(SHORT, temperature=0.0, stop=1, share=1),
)


def for_verifier(requests: Sequence[Request], verifier) -> tuple[Request, ...]:
  """The requests, all of them greedy where the verifier knows nothing else."""
  if not verifier.greedy_only:
    return tuple(requests)
  return tuple(dataclasses.replace(request, temperature=0.0) for request in requests)


def groups(requests: Sequence[Request], rows: int) -> np.ndarray:
  """Which request each of about `rows` rows has, int[R]."""
  shares = np.array([request.share for request in requests])
  return np.repeat(np.arange(len(requests)), rows // shares.sum() * shares)


def cells(texts: np.ndarray) -> np.ndarray:
  """int[R, n] tokens read as numbers in base V: 2 0 1 -> 2 * 9 + 0 * 3 + 1."""
  return texts @ V ** np.arange(texts.shape[1])[::-1]


@dataclasses.dataclass(frozen=True, eq=False)
class Promise:
  """The law promised to each row of a batch behind any two tokens."""

  requests: tuple[Request, ...]
  table: np.ndarray  # float64[V, V, V], logits
  group: np.ndarray  # int[R], each row's request

  @property
  def last_two(self) -> np.ndarray:
    """int[R, 2] of each row's prompt."""
    return np.array([request.last_two for request in self.requests])[self.group]

  def at(self, contexts: np.ndarray) -> np.ndarray:
    """float64[R, ..., V] behind two tokens int[R, ..., 2]."""
    by_group = np.stack([request.law(self.table) for request in self.requests])
    group = self.group.reshape(-1, *(1,) * (contexts.ndim - 2))
    return by_group[group, contexts[..., 0], contexts[..., 1]]

  def text_laws(self, length: int) -> list[np.ndarray]:
    """Of each group's text."""
    return [request.text_law(self.table, length) for request in self.requests]


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
  """A drafter beside a small target that it works with."""

  model: Model
  drafter: Any
  own: Any  # its params; a function of the batch size where it has one text a row

  @property
  def table(self) -> np.ndarray:
    """The target's logits behind any two tokens, float64[V, V, V]."""
    params = self.model.params
    layers = params if isinstance(params, tuple) else (params,)
    return np.sum([np.asarray(layer, np.float64) for layer in layers], axis=0)

  def begin(
    self, requests: Sequence[Request], group: np.ndarray, new: int, first_seed: int
  ) -> tuple[Params, DecodeState]:
    """Rows with the requests of int[R] behind their prefill, `new` tokens wanted."""
    target, batch = self.model.target, len(group)
    each = lambda of: np.array([of(request) for request in requests])[group]
    longest = max(len(request.prompt) for request in requests)
    pad = lambda prompt: (*prompt, *(0,) * (longest + new - len(prompt)))
    length = each(lambda request: len(request.prompt))
    rules = [request.rules for request in requests]
    each_rule = {name: np.array([x[name] for x in rules])[group] for name in rules[0]}
    own = self.own(batch) if callable(self.own) else self.own
    params = Params(self.model.params, own)
    state = decoding.init_state(
      target,
      self.drafter,
      params,
      tokens=jnp.asarray(each(lambda request: pad(request.prompt)), jnp.int32),
      length=jnp.asarray(length, jnp.int32),
      limit=jnp.asarray(length + new, jnp.int32),
      stop_ids=jnp.asarray(each(lambda request: (request.stop,)), jnp.int32),
      seed=jnp.asarray((first_seed + np.arange(batch)) % 2**32, jnp.uint32),
      sampling=make_sampling(
        batch,
        logit_bias=jnp.asarray(each(lambda request: request.bias), jnp.float32),
        **each_rule,
      ),
    )
    return params, decoding.prefill(target, self.drafter, params, state)


def setting(subject: Subject) -> Setting:
  """The drafter with a table as target, or several tables that add up.

  Raises:
    ValueError: it works with neither.
  """
  refusals = []
  for model in (tied_table(), layered_model(V)):
    try:
      return Setting(model, *subject.make(model))
    except ValueError as error:
      refusals.append(f'with {model.label} as target: {error}')
  raise ValueError('; '.join(refusals))


def tied_table() -> Model:
  """Logits in halves, so that tokens tie: greedy rows take the first of them."""
  model = table_model(V)
  return dataclasses.replace(model, params=jnp.round(2 * model.params) / 2)
