"""From a config's method dicts to drafters and verifiers."""

import pytest

from experiments import methods
from specjax.drafters.lookup_tree import LookupTree
from specjax.drafters.oracle import Oracle
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.drafters.self_speculative import SelfSpeculative
from specjax.testing import tiny
from specjax.testing.table import table_model
from specjax.verifiers.gumbel import Gumbel

PLAIN = dict(drafter=dict(name='autoregressive'))
ORACLE = dict(drafter=dict(name='oracle', num_draft=3, rates=[1.0, 1.0, 1.0]))


TARGET = table_model(50)


class TestMethods:
  def test_settings_go_to_the_dataclass(self):
    parsed = methods.parse({'a': PLAIN, 'o': {**ORACLE, 'temperature': 1}}, 0.0, TARGET)
    assert parsed['o'].drafter == Oracle(3, vocab_size=50, rates=(1.0, 1.0, 1.0))
    assert parsed['o'].verifier == Gumbel()
    assert (parsed['a'].temperature, parsed['o'].temperature) == (0.0, 1.0)

  def test_lists_inside_lists_become_tuples(self):
    settings = dict(name='lookup_tree', num_draft=2, tree=[[0], [1], [0, 0]])
    drafter, _ = methods.drafter(settings, TARGET)
    assert drafter == LookupTree(2, ((0,), (1,), (0, 0)))

  def test_a_dotted_path_is_the_users_own_module(self):
    own = dict(name='specjax.drafters.prompt_lookup', num_draft=2)
    assert methods.drafter(own, TARGET) == (PromptLookup(num_draft=2), None)

  def test_load_makes_a_drafter_and_its_params(self):
    model = tiny.tiny_model()
    settings = dict(name='self_speculative', num_layers=1)
    drafter, params = methods.drafter(settings, model)
    assert drafter == SelfSpeculative(model.target, num_layers=1) and params is None

  @pytest.mark.parametrize(
    ('drafter', 'message'),
    [
      (
        dict(name='medsua'),
        'specjax.drafters.medsua: .*: autoregressive, draft_model, draft_tree, lookup',
      ),
      (dict(name='no.where'), 'no.where: there is no such module'),
      (dict(name='specjax.trees'), 'specjax.trees: it has no Drafter'),
      (dict(num_draft=3), 'has no name'),
      (
        dict(name='prompt_lookup', depth=3),
        "does not take 'depth'.*max_ngram: int = 3",
      ),
      (dict(name='oracle', rates=[1.0]), "needs 'num_draft'.*num_draft: int"),
      (dict(name='prompt_lookup', num_draft=0), 'method m: num_draft must be a whole'),
      (dict(name='draft_model'), r"needs 'source'; it takes \(source: str"),
      (dict(name='self_speculative', num_layers=2), 'made of layers'),
    ],
  )
  def test_errors_say_what_is_right(self, drafter, message):
    with pytest.raises(ValueError, match=message):
      methods.parse({'m': dict(drafter=drafter)}, 0.0, TARGET)

  def test_only_takes_baselines_along(self):
    warm = dict(temperature=1.0)
    table = {'b': PLAIN, 'o': ORACLE, 'b1': {**PLAIN, **warm}, 'o1': {**ORACLE, **warm}}
    chosen = lambda only: list(methods.choose(table, only, 0.0))
    assert chosen('') == ['b', 'o', 'b1', 'o1']
    assert chosen('o1') == ['b1', 'o1']
    assert chosen('o,o1') == ['b', 'o', 'b1', 'o1']
    with pytest.raises(ValueError, match="'x'; known: b, o, b1, o1"):
      chosen('o,x')

  def test_a_method_needs_plain_decoding_at_its_temperature(self):
    parsed = methods.parse({'b': PLAIN, 'o1': ORACLE | {'temperature': 1}}, 0.0, TARGET)
    with pytest.raises(ValueError, match='o1 runs at temperature 1.0, and no method'):
      methods.baseline_of(parsed['o1'], parsed.values())

  def test_what_is_not_asked_for_is_not_loaded(self):
    absent = dict(drafter=dict(name='draft_model', source='no/where/at/all'))
    chosen = methods.choose({'b': PLAIN, 'o': ORACLE, 'd': absent}, 'o', 0.0)
    assert list(methods.parse(chosen, 0.0, TARGET)) == ['b', 'o']
