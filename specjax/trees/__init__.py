"""Trees of drafted nodes: who follows whom, and how shapes are written, chosen, drawn.

`topology` has what the decode loop needs of any tree, `shapes` static trees as path
lists, `expected` what a static tree gives by measured acceptance rates and `optimal`
the best one, `growth` trees grown at run time from the drafter's own probabilities,
`drawing` a tree as text.
"""

from specjax.trees.drawing import as_text
from specjax.trees.expected import (
  acceptance_rates,
  copied_tokens,
  expected_tokens,
  path_chances,
  tokens_per_second,
)
from specjax.trees.growth import best_first, rerank
from specjax.trees.optimal import best_trees, fastest
from specjax.trees.shapes import from_paths, from_widths, paths
from specjax.trees.topology import (
  ancestors,
  chain,
  depths,
  is_chain,
  max_depth,
  parents,
  path_to,
)
from specjax.types import Tree

__all__ = [
  'Tree',
  'acceptance_rates',
  'ancestors',
  'as_text',
  'best_first',
  'best_trees',
  'chain',
  'copied_tokens',
  'depths',
  'expected_tokens',
  'fastest',
  'from_paths',
  'from_widths',
  'is_chain',
  'max_depth',
  'parents',
  'path_chances',
  'path_to',
  'paths',
  'rerank',
  'tokens_per_second',
]
