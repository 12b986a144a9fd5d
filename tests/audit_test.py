"""The audit's statistics, laws and drafts, against numbers by hand and simulation."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import stats

from experiments import audit
from experiments.auditing import decodes, evidence, given, requests
from experiments.auditing.evidence import Cell
from experiments.auditing.requests import Request, V
from specjax.testing import bushes, laws
from specjax.testing.subjects import Subject
from specjax.types import Stats

RNG = np.random.default_rng(0)


class TestEvidence:
  LAW, LEVEL = np.array([0.3, 0.4, 0.2, 0.1]), 1e-4

  def test_of_two_groups_by_hand(self):
    promised = {0: np.array([0.5, 0.5]), 2: np.array([0.2, 0.8])}
    cells = np.repeat([0, 1, 0, 1, 0], [60, 40, 20, 80, 7])
    group = np.repeat([0, 2, 1], [100, 100, 7])  # no law is promised to group 1
    got = evidence.of_law(cells, group, promised)
    assert got.fit.statistic == pytest.approx(100 / 50 + 100 / 50)
    assert (got.rows, got.fit.df, got.fit.pooled) == (200, 2, 0)
    assert got.distance == pytest.approx(0.05)
    assert got.unit == pytest.approx(0.5 / 200**0.5)

  def test_rare_cells_count_as_undetectable(self):
    law = np.array([0.96, 0.02, 0.01, 0.01])
    seen = evidence.of_law(np.repeat([0, 1], [96, 4]), np.zeros(100, int), {0: law})
    assert seen.fit.pooled == pytest.approx(1) and seen.fit.df == 0
    assert seen.detectable(self.LEVEL) == 1

  def test_what_is_detectable_is_detected_nine_times_in_ten(self):
    """In the worst direction: all of the law moves in proportion to itself."""
    rows = 20_000
    honest = evidence.of_law(
      RNG.choice(4, rows, p=self.LAW), np.zeros(rows), {0: self.LAW}
    )
    away = honest.detectable(self.LEVEL)
    bent = self.LAW * (1 + 2 * away * np.array([1, -1, 1, -1]))
    assert (
      bent.sum() > 0 and np.abs(bent / bent.sum() - self.LAW).sum() / 2 > 0.9 * away
    )
    bent /= bent.sum()
    found = [
      laws.chi_square(seen, self.LAW).p_value < self.LEVEL
      for seen in RNG.multinomial(rows, bent, size=2000)
    ]
    assert 0.87 < np.mean(found) < 0.93
    nearer = (bent + self.LAW) / 2
    found = [
      laws.chi_square(seen, self.LAW).p_value < self.LEVEL
      for seen in RNG.multinomial(rows, nearer, size=2000)
    ]
    assert np.mean(found) < 0.5

  def test_a_mean_is_a_z_test(self):
    seen = evidence.of_mean(0.03, 0.01, 500)
    assert seen.fit.p_value == pytest.approx(2 * stats.norm.sf(3))
    z = stats.norm.isf(self.LEVEL / 2) + stats.norm.isf(0.1)
    assert seen.detectable(self.LEVEL) == pytest.approx(0.01 * z, rel=1e-3)

  def test_one_wrong_row_is_enough(self):
    wrong = np.zeros(1000, bool)
    assert evidence.exact(wrong).fit.p_value == 1
    assert evidence.exact(wrong).detectable(1e-9) == pytest.approx(1 - 0.1**0.001)
    wrong[3] = True
    assert evidence.exact(wrong).fit.p_value == 0

  def test_status_of_each_kind_of_cell(self):
    good, bad = evidence.of_mean(0.01, 0.01, 9), evidence.of_mean(0.1, 0.01, 9)
    cells = [
      Cell('p', 'd', 'v', 'passes', good),
      Cell('p', 'd', 'v', 'fails', bad),
      Cell('p', 'd', 'v', 'is lossy', bad, lossy=True),
      Cell('p', 'd', 'v', 'has a problem', good, problem='too short'),
      Cell('p', 'd', 'v', 'was refused', None, problem='a tree'),
    ]
    rows = evidence.judged(cells)
    found = ['pass', 'FAIL', 'lossy', 'FAIL', 'not checked']
    assert [row['status'] for row in rows] == found
    assert rows[1]['p_holm'] == pytest.approx(4 * bad.fit.p_value)


class TestRequests:
  TABLE = RNG.normal(size=(V,) * 3)

  def test_text_law_ends_behind_a_stop(self):
    request = Request((2, 1), temperature=0.7, bias=(0.3, 0, 0), stop=1)
    law = request.text_law(self.TABLE, 3)
    next_token, want = request.law(self.TABLE), np.zeros(V**3)
    for text in itertools.product(range(V), repeat=3):
      chance, context = 1.0, (2, 1)
      for token in text:
        chance *= next_token[context][token]
        context = context[1], token
      end = text.index(1) + 1 if 1 in text else 3
      a, b, c = (*text[:end], 0, 0)[:3]
      want[9 * a + 3 * b + c] += chance
    np.testing.assert_allclose(law, want, atol=1e-12)

  def test_greedy_rows_meet_ties(self):
    """Else a row that is divided by a tiny temperature looks greedy."""
    table = np.asarray(requests.tied_table().params, float)
    ties = 0
    for request in requests.REQUESTS:
      if request.temperature == 0:
        text = list(request.prompt)
        for _ in range(decodes.NEW):
          logits = table[text[-2], text[-1]] + request.bias
          ties += np.sum(logits == logits.max()) > 1
          text.append(int(np.argmax(logits)))
    assert ties


class TestGiven:
  Q = Request((0,)).law(RNG.normal(size=(V,) * 3))
  ROWS = 12_000

  def draft(self, shape, siblings):
    return given.propose(shape, siblings, self.Q, np.zeros((self.ROWS, 2), int), 0)

  @pytest.mark.parametrize('shape', ['3-1', 'grown'])
  @pytest.mark.parametrize('siblings', ['distinct', 'likeliest', 'shared noise'])
  def test_siblings_differ(self, shape, siblings):
    draft, (parents, count) = (
      self.draft(shape, siblings),
      given._parents(shape, self.ROWS),
    )
    for a, b in itertools.combinations(range(parents.shape[1]), 2):
      both = (parents[:, a] == parents[:, b]) & (b < count)
      assert not np.any(draft.tokens[both, a] == draft.tokens[both, b])

  def test_siblings_without_replacement_follow_what_their_elders_left(self):
    draft = self.draft('3-1', 'distinct')
    pairs = draft.tokens[:, 0] * V + draft.tokens[:, 1]
    first = self.Q[0, 0]
    left = np.where(np.eye(V, dtype=bool), 0, first / (1 - first)[:, None])
    law = (first[:, None] * left).ravel()
    assert laws.chi_square(np.bincount(pairs, minlength=V * V), law).p_value > 1e-3
    for token in range(V):
      rows = draft.tokens[:, 0] == token
      np.testing.assert_allclose(
        np.exp(draft.log_q[rows, 1][0]), left[token], rtol=1e-6
      )

  def test_contexts_follow_the_tree(self):
    tokens, parents = np.array([[5, 6, 7, 8]]), np.array([[-1, -1, 0, 2]])
    found = bushes.contexts(tokens, parents, np.array([[3, 4]]))
    assert found[0].tolist() == [[3, 4], [4, 5], [4, 6], [5, 7], [7, 8]]
    assert bushes.depths(parents).tolist() == [[1, 1, 2, 3]]


def test_counts_that_are_not_those_of_the_tokens_are_found():
  """Traces 1 2 0 1 and 0 0 1 0, whose rounds had 3 nodes, but for the last."""
  trace = np.array([[1, 2, 0, 1, 0], [0, 0, 1, 0, 0]])
  right = Stats(
    target_calls=np.array([2, 3]),
    drafted=np.array([6, 7]),
    accepted=np.array([3, 1]),
    histogram=np.array([[0, 1, 1, 0], [2, 1, 0, 0]]),
    offered=np.array([[2, 2, 2], [3, 2, 2]]),
    node_accepted=np.array([[2, 1, 0], [1, 0, 0]]),
  )
  output = decodes.Output(np.zeros(2, int), trace, trace, np.array([4, 4]), right)
  assert not decodes.miscounted(output).any()
  for field in dataclasses.fields(Stats):
    more = getattr(right, field.name).copy()
    more[1] = more[1] - 3 if field.name == 'offered' else more[1] + 1
    if field.name != 'drafted':
      wrong = dataclasses.replace(right, **{field.name: more})
      found = decodes.miscounted(dataclasses.replace(output, stats=wrong))
      assert found.tolist() == [False, True], field.name


@pytest.mark.parametrize(
  'drafters, verifiers, partners, wanted',
  [(5, 4, 2, 10), (1, 4, 2, 4), (3, 1, 2, 3), (2, 5, 1, 6), (4, 4, 4, 16)],
)
def test_pairs_leave_nobody_out(drafters, verifiers, partners, wanted):
  name = lambda kind, count: [Subject(f'{kind}{i}', lambda: 0) for i in range(count)]
  pairs = audit.pairs(name('d', drafters), name('v', verifiers), partners)
  assert len({(d.name, v.name) for d, v in pairs}) == len(pairs) == wanted
  assert len({d.name for d, _ in pairs}) == drafters
  assert len({v.name for _, v in pairs}) == verifiers


class TestReport:
  GOOD, BAD = evidence.of_mean(0.01, 0.01, 9), evidence.of_mean(0.1, 0.01, 9)
  MINE, OTHER = Subject('mine', lambda: 0), Subject('block', lambda: 0)

  def rows(self, *cells):
    return evidence.judged([Cell('decoding', 'mine', 'block', *cell) for cell in cells])

  def test_a_failure_says_where_and_by_how_much(self):
    rows = self.rows(('law', self.BAD), ('counts', self.GOOD))
    said = r'mine with block, law: p = 1.5e-23 .* distance 0.100 in 9 rows \(0.048 is'
    with pytest.raises(ValueError, match=said):
      audit._raise_failures(rows, [self.MINE], [self.OTHER])
    assert audit._text(rows) == 'FAIL .100'

  def test_what_could_not_be_audited_fails_too(self):
    rows = self.rows(('law', None, False, 'it has no layers'))
    assert audit._text(rows) == '-'
    judged = evidence.judged([Cell('drafters', 'mine', 'block', 'law', self.GOOD)])
    said = r'mine could not be audited \(decoding\): it has no layers'
    with pytest.raises(ValueError, match=said):  # a part that passed is not enough
      audit._raise_failures(judged + rows, [self.MINE], [self.OTHER])

  def test_what_is_lossy_by_design_does_not_fail(self):
    rows = self.rows(('law', self.BAD, True), ('counts', self.GOOD))
    audit._raise_failures(rows, [self.MINE], [self.OTHER])
    assert audit._text(rows) == 'lossy .100'
