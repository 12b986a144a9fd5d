"""The nouns of specjax: what passes between target, drafter and verifier.

Letters, everywhere: B rows, L token buffer, S cache slots, K draft depth, N drafted
nodes (a chain has N = K), T = N + 1 scored tokens, V target vocabulary, D features.
p is the target's distribution, q the drafter's. A position counts tokens from 0.

One round, for a row whose text is [7 3 9] and a draft [4 4 8] (N = 3):

  scored tokens      9 4 4 8      positions 2 3 4 5 (9 is not in the cache yet)
  target says        4 4 5 .      after 9 comes 4, after 4 comes 4, then 5, not 8
  verdict            num_accepted = 2, next_token = 5
  committed          7 3 9 4 4 5  three new tokens for one target call
"""

from typing import Any, Protocol

import jax
from flax import struct

Array = jax.Array
PyTree = Any


@struct.dataclass
class Tree:
  """Who follows whom among the N drafted nodes; -1 is the last committed token.

  Either static or grown is set. Parents stand before their children.
  """

  static: tuple[int, ...] | None = struct.field(pytree_node=False, default=None)
  grown: Array | None = None  # int32[B, N], when the shape is chosen at run time
  # Generations that a grown tree has at most; None: N.
  depth: int | None = struct.field(pytree_node=False, default=None)


@struct.dataclass
class Draft:
  """What every drafter hands every verifier.

  Elder siblings stand before younger ones, and a node's law is the one given its
  elders: without their tokens, where siblings are drawn without replacement.
  """

  tokens: Array  # int32[B, N] proposed nodes, parents before children
  num_valid: Array  # int32[B] how many of the first nodes count in this row
  tree: Tree
  log_q: Array | None = None  # float32[B, N, V_q] each node's law; None = deterministic
  vocab: Array | None = None  # int32[V_q] target ids of log_q's columns; None = all
  cache: PyTree = None  # the target's, where the drafter wrote into its free slots


@struct.dataclass
class TargetOutput:
  """One target call."""

  logits: Array  # float32[B, R, V] of the R rows asked for
  features: dict[int, Array]  # {layer: float[B, T, D]} of the layers asked for
  cache: PyTree


@struct.dataclass
class Verdict:
  """What a verifier decides about one draft."""

  path: Array  # int32[B, K] the accepted node of each depth, where depth < num_accepted
  num_accepted: Array  # int32[B]
  next_token: Array  # int32[B] the target's own token: correction or bonus


@struct.dataclass
class Window:
  """A run of tokens that the target has just scored for good.

  Row b scored tokens[b, :count] at positions start .. start + count - 1;
  tokens[b, count] follows them and is committed, but not scored yet.
  features[layer][b, i] belongs to tokens[b, i] and predicted tokens[b, i + 1].
  """

  tokens: Array  # int32[B, W + 1]
  start: Array  # int32[B]
  count: Array  # int32[B]
  features: dict[int, Array]  # {layer: float[B, W, D]}


@struct.dataclass
class Sampling:
  """How a row turns logits into its law. Temperature 0 is greedy."""

  temperature: Array  # float32[B] >= 0
  top_k: Array  # int32[B]; 0 = off
  top_p: Array  # float32[B] in (0, 1]; 1 = off
  min_p: Array  # float32[B] in [0, 1); 0 = off
  logit_bias: Array | None = None  # float32[B, V]; None = off


@struct.dataclass
class Context:
  """What a drafter may look at when it proposes."""

  tokens: Array  # int32[B, L]
  length: Array  # int32[B] committed tokens
  budget: Array  # int32[B] tokens still wanted
  sampling: Sampling
  cache: PyTree = None  # the target's; see DecodeState


@struct.dataclass
class Stats:
  """Counts of emitted tokens, per row. K is the drafter's depth."""

  target_calls: Array  # int32[B]
  drafted: Array  # int32[B] valid nodes proposed
  accepted: Array  # int32[B] accepted nodes that were emitted
  histogram: Array  # int32[B, K + 1] rounds by number of accepted nodes
  offered: Array  # int32[B, K] rounds that proposed a node at this depth
  # int32[B, N] rounds that accepted each node, of static trees; None where N = K
  node_accepted: Array | None = None


@struct.dataclass
class DecodeState:
  """The carry of the decode loop. No two leaves may be the same array: it is donated.

  The last committed token (position length - 1) is not in the cache yet; cache slots
  below length - 1 are exact, slots from there on are free.
  """

  tokens: Array  # int32[B, L] prompt and output
  length: Array  # int32[B] committed tokens
  limit: Array  # int32[B] the length at which the row ends
  stop_ids: Array  # int32[B, M]; -1 fills up
  done: Array  # bool[B]
  seed: Array  # uint32[B]
  sampling: Sampling
  cache: PyTree
  draft: PyTree  # the drafter's own state
  stats: Stats
  trace: Array  # int32[B, L] 0: the target's own token, d: accepted at draft depth d
  log_p: Array | None = None  # float32[B, L] of emitted tokens; None: not kept
  stop_strings: PyTree = None  # specjax.stopping.StopStrings; None: no row has any


@struct.dataclass
class Params:
  """Arrays of both models. A drafter gets (own, target): it may share by reference."""

  target: PyTree
  drafter: PyTree = None

  @property
  def for_drafter(self) -> tuple[PyTree, PyTree]:
    """What a drafter's methods are given as `params`."""
    return self.drafter, self.target


class Target(Protocol):
  """A frozen dataclass: what the decode loop needs of a language model."""

  vocab_size: int

  def init_cache(self, batch: int, slots: int) -> PyTree:
    """An empty cache with room for `slots` tokens a row."""

  def __call__(
    self, params, tokens, positions, cache, *, slots, ancestors, logits_at, features_at
  ) -> TargetOutput:
    """Writes the window's keys and values into the cache and scores it.

    tokens int32[B, T]; positions int32[B, T]; slots int32[B], the first slot written;
    ancestors bool[B, T, T] | None (None: a chain); logits_at int32[B, R] | None (None:
    all T rows); features_at: the layers whose hidden states are wanted.
    """

  def keep_path(self, cache, start, path) -> PyTree:
    """After a tree: moves the accepted nodes' slots to where a chain's would be.

    start int32[B] is the root's slot, path int32[B, K] the accepted node of each depth.
    """


class Drafter(Protocol):
  """A frozen dataclass of hyper-parameters; its arrays live in params and state."""

  num_draft: int  # K, the depth
  num_nodes: int  # N; a chain's is K
  feature_layers: tuple[int, ...]

  def init(self, params, batch: int, max_len: int) -> PyTree:
    """An empty state."""

  def update(self, params, state, window: Window) -> PyTree:
    """Learns what was committed: after each prefill chunk and after every round."""

  def propose(self, params, state, context: Context, keys) -> tuple[Draft, PyTree]:
    """Drafts up to num_draft tokens a row."""


class Verifier(Protocol):
  """A frozen dataclass: the acceptance rule."""

  lossless: bool  # the output has exactly the target's law
  shared_noise: bool  # the drafter must draw with the target's own noise
  greedy_only: bool  # reads argmax p alone: logits need no warping

  def __call__(self, keys, draft: Draft, log_p: Array) -> Verdict:
    """Verifies a draft against log_p float32[B, N + 1, V] (row 0: after the text)."""
