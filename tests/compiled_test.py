"""What the compiled generation program may not hold: invariant 7 of the design."""

import collections
import itertools
import re

import jax
import pytest

from specjax import decoding, request
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.draft_tree import DraftTree
from specjax.drafters.dynamic_tree import DynamicTree
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.drafters.self_speculative import SelfSpeculative
from specjax.targets import transformer
from specjax.types import Params
from specjax.verifiers.greedy import Greedy

IN_PLACE = {'parameter', 'get-tuple-element', 'dynamic-update-slice', 'scatter'}


@pytest.fixture(
  scope='module',
  params=[
    *itertools.product(['lookup', 'draft model', 'itself'], [1, 3]),
    ('draft tree', 3),
  ],
  ids=lambda drafter_and_rows: '{} {}'.format(*drafter_and_rows),
)
def programs(request):
  return _compile(*request.param)


def _compile(name: str, batch: int):
  """(state, {name: compiled program}) with caches that dwarf everything else."""
  cfg = transformer.TransformerConfig(64, 64, 128, 2, 4, 4, 64, 8192)
  target, weights = transformer.build(cfg)
  drafter = {
    'lookup': PromptLookup(),
    'draft model': DraftModel(target, 64),  # its cache has the target's shape
    'draft tree': DraftTree(target, 64, DynamicTree(3, beam=3, num_nodes=8)),
    'itself': SelfSpeculative(target, num_layers=1),
  }[name]
  static, params = (target, drafter, Greedy()), Params(weights, weights)
  prompts = [[1, 2, 3]] * batch
  state = request.start(*static, params, prompts, max_new_tokens=5, max_len=8192)
  lowered = {
    'prefill': decoding.prefill.lower(*static[:2], params, state),
    'decode': decoding.decode.lower(*static, params, state),
  }
  return state, {name: program.compile() for name, program in lowered.items()}


def _caches(state) -> list:
  """The target's, and the drafter's where it has one."""
  return [leaf for leaf in jax.tree.leaves((state.cache, state.draft)) if leaf.ndim > 2]


@pytest.mark.parametrize('name', ['prefill', 'decode'])
def test_no_copy_or_transpose_of_a_cache(programs, name):
  state, compiled = programs
  shape = ','.join(map(str, state.cache.keys[0].shape))
  pattern = rf'f32\[{shape}\]\S* ([a-z\-]+)\('
  counts = collections.Counter(re.findall(pattern, compiled[name].as_text()))
  caches = sum(leaf.shape == state.cache.keys[0].shape for leaf in _caches(state))
  assert counts['dynamic-update-slice'] + counts['scatter'] >= caches
  # A fusion of this shape wraps one of the in-place writes counted beside it.
  assert counts.pop('fusion') <= counts['dynamic-update-slice'] + counts['scatter']
  assert set(counts) <= IN_PLACE, counts


@pytest.mark.parametrize('name', ['prefill', 'decode'])
def test_temporaries_are_small_and_the_state_is_updated_in_place(programs, name):
  state, compiled = programs
  cache = sum(leaf.nbytes for leaf in _caches(state))
  memory = compiled[name].memory_analysis()
  assert memory.alias_size_in_bytes >= cache
  assert memory.temp_size_in_bytes < 0.1 * cache
