"""alpha against the tables that it is about."""

import numpy as np

from experiments import overlap
from specjax import api
from specjax.drafters.draft_model import DraftModel
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.testing import laws
from specjax.testing.table import table_model
from specjax.verifiers.gumbel import Gumbel

V, K = 5, 3
MODEL, OTHER = table_model(V), table_model(V, seed=7)
PROMPTS = [[1, 2, 3, 1], [4, 0, 2]]


def overlaps(drafter, own):
  settings = dict(temperature=[1.0, 0.6], max_new_tokens=9, stop_ids=())
  run = api.begin(MODEL, PROMPTS, drafter, Gumbel(), own, **settings)
  found = overlap.of_round(run.target, run.drafter, run.params, run.state)
  return [np.asarray(each) for each in found]


def law(table, last: list[int], temperature: float) -> np.ndarray:
  return laws.warped(np.asarray(table)[tuple(last[-2:])], temperature=temperature)


def test_overlap_is_the_common_mass_of_both_laws():
  each, weights = overlaps(DraftModel(MODEL.target, V, K), OTHER.params)
  assert each.shape == weights.shape == (2, K) and np.all(weights[:, 0] == 1)
  assert np.all(np.diff(weights, axis=1) <= 0) and np.all(weights >= 0)
  for row, (prompt, temperature) in enumerate(zip(PROMPTS, (1.0, 0.6))):
    p, q = (law(table, prompt, temperature) for table in (MODEL.params, OTHER.params))
    np.testing.assert_allclose(each[row, 0], np.minimum(p, q).sum(), rtol=1e-5)


def test_a_certain_draft_has_the_probability_of_its_token():
  each, weights = overlaps(PromptLookup(K, max_ngram=2, min_ngram=1), None)
  copied = [2, 3, 1]  # what followed the first 1
  text, reached = list(PROMPTS[0]), 1.0
  for node, token in enumerate(copied):
    p = law(MODEL.params, text, 1.0)[token]
    np.testing.assert_allclose([each[0, node], weights[0, node]], [p, reached], 1e-5)
    text.append(token)
    reached *= p
  assert not weights[1].any()  # no match: nothing was drafted
