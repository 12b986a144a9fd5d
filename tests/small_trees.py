"""All small trees, found by adding node after node."""


def small_trees(max_nodes: int, max_depth: int, ranks: int) -> set[frozenset]:
  """Path sets of all trees within the limits, that of no nodes included."""
  found, latest = {frozenset()}, {frozenset()}
  for _ in range(max_nodes):
    latest = {
      shape | {path} for shape in latest for path in _next(shape, max_depth, ranks)
    }
    found |= latest
  return found


def _next(shape: frozenset, max_depth: int, ranks: int) -> list[tuple[int, ...]]:
  """The paths that can be added: each node's next child."""
  parents = [path for path in (*shape, ()) if len(path) < max_depth]
  children = [
    (*parent, sum(len(p) == len(parent) + 1 and p[:-1] == parent for p in shape))
    for parent in parents
  ]
  return [path for path in children if path[-1] < ranks]
