"""The drafters that ship, each as an instance that a small target can be audited with.

A module of one's own needs no entry here: see `specjax.testing.subjects`.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from experiments.auditing.requests import LONG
from specjax.drafters import self_speculative
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.draft_tree import DraftTree
from specjax.drafters.dynamic_tree import DynamicTree
from specjax.drafters.growing import StaticTree
from specjax.drafters.lookup_tree import LookupTree
from specjax.drafters.oracle import Oracle
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.model import Model
from specjax.testing import subjects
from specjax.testing.subjects import Subject
from specjax.testing.table import TableTarget, table_model

PATHS = (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)


def drafter(name: str) -> Subject:
  """The example of this name, or a module's own.

  Raises:
    ValueError: there is neither; see `subjects.drafter`.
  """
  return Subject(name, EXAMPLES[name]) if name in EXAMPLES else subjects.drafter(name)


def _draft_model(model: Model):
  """Another table over the same tokens."""
  size = model.target.vocab_size
  return DraftModel(TableTarget(size), size, 3), table_model(size, seed=50).params


def _fewer_tokens(model: Model):
  """A table that does not know the target's last token."""
  size = model.target.vocab_size
  return DraftModel(TableTarget(size - 1), size, 2), table_model(size - 1, 2).params


def _self_speculative(model: Model):
  """The target's first layer; a table alone has none."""
  if isinstance(model.target, TableTarget):
    raise ValueError('self_speculative needs a target made of layers')
  return self_speculative.SelfSpeculative(model.target, num_layers=1, num_draft=3), None


def _oracle(model: Model):
  """It takes all rows for the same text, of which rows soon depart."""
  text = lambda batch: jnp.asarray(np.tile(LONG, (batch, 6)), jnp.int32)
  return Oracle(3, model.target.vocab_size, rates=(0.9, 0.6, 0.5)), text


def _tree(shape: StaticTree | DynamicTree):
  """The same draft model, drafting a tree."""

  def make(model: Model):
    drafter, params = _draft_model(model)
    return DraftTree(drafter.model, drafter.vocab_size, shape), params

  return make


EXAMPLES: dict[str, Callable[[Model], tuple[Any, Any]]] = {
  'prompt_lookup': lambda model: (PromptLookup(3, max_ngram=2, min_ngram=1), None),
  'draft_model': _draft_model,
  'fewer_tokens': _fewer_tokens,
  'self_speculative': _self_speculative,
  'oracle': _oracle,
  'lookup_tree': lambda model: (LookupTree(3, PATHS, max_ngram=2, min_ngram=1), None),
  'tree_distinct': _tree(StaticTree(3, PATHS, 'distinct')),
  'tree_independent': _tree(StaticTree(3, PATHS, 'independent')),
  'tree_likeliest': _tree(StaticTree(3, PATHS, 'likeliest')),
  'dynamic_tree': _tree(DynamicTree(3, beam=2, num_nodes=5)),
}
