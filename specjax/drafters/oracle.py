"""A drafter that knows the text: ceilings, synthetic load and one-line tests.

Acceptance is dialled. With `rates`, depth d is right with probability rates[d], given
that the depths before it were. With `script`, round r of a row proposes script[r] right
tokens and then wrong ones; -1 skips the round; the script starts over at its end. It is
only as right as the text it is given: pass the baseline's own output.
"""

import dataclasses

import jax.numpy as jnp
from flax import struct

from specjax import checks, trees
from specjax import keys as keys_lib
from specjax.types import Array, Context, Draft, Window


@struct.dataclass
class OracleState:
  """Where each row stands in the script."""

  rounds: Array  # int32[B]


@dataclasses.dataclass(frozen=True)
class Oracle:
  """params (own) is the known text, int32[B, L], prompt included.

  Raises:
    ValueError: num_draft < 1; both or neither of rates and script; rates of another
      length than num_draft or outside [0, 1]; script entries outside -1 .. num_draft.
  """

  num_draft: int
  vocab_size: int
  rates: tuple[float, ...] | None = None
  script: tuple[int, ...] | None = None
  feature_layers = ()

  def __post_init__(self):
    checks.whole('num_draft', self.num_draft, 1)
    if (self.rates is None) == (self.script is None):
      raise ValueError('oracle needs either rates or script, and not both')
    if self.rates is not None:
      if len(self.rates) != self.num_draft or not all(0 <= r <= 1 for r in self.rates):
        raise ValueError(
          f'rates must be {self.num_draft} numbers in [0, 1], got {self.rates}'
        )
    elif not self.script or not all(-1 <= s <= self.num_draft for s in self.script):
      raise ValueError(
        f'script must hold numbers from -1 to {self.num_draft}, got {self.script}'
      )

  @property
  def num_nodes(self) -> int:
    """A chain."""
    return self.num_draft

  def init(self, params, batch: int, max_len: int) -> OracleState:
    """Round 0."""
    shape = None if params[0] is None else jnp.shape(params[0])
    if shape is None or len(shape) != 2 or shape[0] != batch:
      raise ValueError(
        f'oracle needs the text of {batch} rows, int32[{batch}, L], as drafter_params; '
        f'got {"none" if shape is None else f"shape {shape}"}'
      )
    return OracleState(rounds=jnp.zeros(batch, jnp.int32))

  def update(self, params, state: OracleState, window: Window) -> OracleState:
    """Nothing to learn."""
    return state

  def propose(self, params, state: OracleState, context: Context, keys):
    """The known continuation, made wrong from the dialled depth on."""
    text, _ = params
    index = context.length[:, None] + jnp.arange(self.num_draft)
    known = jnp.take_along_axis(text, index, axis=1, mode='clip')
    right, num_valid = self._dial(state, keys, context.length.shape[0])
    tokens = jnp.where(right, known, (known + 1) % self.vocab_size)
    draft = Draft(tokens.astype(jnp.int32), num_valid, trees.chain(self.num_draft))
    return draft, OracleState(rounds=state.rounds + 1)

  def _dial(self, state: OracleState, keys, batch: int) -> tuple[Array, Array]:
    """Which nodes are right, bool[B, K], and how many count, int32[B]."""
    if self.rates is not None:
      coins = keys_lib.uniforms(keys, keys_lib.DRAFT, self.num_draft)
      return coins < jnp.array(self.rates), jnp.full(batch, self.num_draft)
    script = jnp.array(self.script)
    wanted = script[state.rounds % script.size]
    right = jnp.arange(self.num_draft) < wanted[:, None]
    return right, jnp.where(wanted < 0, 0, self.num_draft)


Drafter = Oracle
