"""Greedy text, ends of rows, streaming: whatever is drafted, the text is the same."""

import jax
import numpy as np
import pytest

import specjax
from specjax import api, decoding
from specjax.drafters.oracle import Oracle
from specjax.drafters.prompt_lookup import PromptLookup
from specjax.testing.oracle_text import oracle_text
from specjax.testing.table import table_model
from specjax.testing.tiny import tiny_model
from specjax.verifiers.greedy import Greedy
from specjax.verifiers.gumbel import Gumbel
from specjax.verifiers.rejection import Rejection

pytestmark = pytest.mark.usefixtures('compile_quickly')

MODELS = dict(table=table_model(11), tiny=tiny_model())
PROMPTS = dict(
  table=[[1, 2, 3, 1], [0], [4, 2, 1, 10, 3, 5] * 30],
  tiny=[list(b'to be or not to be'), list(b'?'), list(b'one two three ' * 10)],
)
NEW = 40


def plain(model_name: str, **settings):
  """Autoregressive completions."""
  settings = dict(max_new_tokens=NEW, stop_ids=()) | settings
  return specjax.decode(MODELS[model_name], PROMPTS[model_name], **settings)


def drafter(name: str, num_draft: int, vocab_size: int):
  if name == 'oracle':
    return Oracle(num_draft, vocab_size, rates=(0.8,) * num_draft)
  return PromptLookup(num_draft, max_ngram=3, min_ngram=1)


class TestGreedyTextIsTheBaselines:
  """On a transformer. All drafters and verifiers on tables: invariants_test."""

  @pytest.mark.parametrize(
    'name, verifier, num_draft',
    [
      ('prompt_lookup', Greedy(), 4),
      ('prompt_lookup', Rejection(), 1),
      ('oracle', Gumbel(), 8),
    ],
  )
  def test_token_by_token(self, name, verifier, num_draft):
    model, prompts = MODELS['tiny'], PROMPTS['tiny']
    base = plain('tiny')
    text = oracle_text(prompts, base) if name == 'oracle' else None
    got = specjax.decode(
      model,
      prompts,
      drafter=drafter(name, num_draft, model.target.vocab_size),
      verifier=verifier,
      drafter_params=text,
      max_new_tokens=NEW,
      stop_ids=(),
    )
    assert [done.tokens for done in got] == [done.tokens for done in base]
    assert all(0 < done.accepted < done.drafted for done in got)


class TestEnds:
  """Four right nodes every round, so that ends fall into every place of a window."""

  def run(self, base, **settings):
    prompts = PROMPTS['table']
    settings = dict(max_new_tokens=NEW) | settings
    run = api.begin(
      MODELS['table'],
      prompts,
      Oracle(4, 11, script=(4,)),
      Greedy(),
      oracle_text(prompts, base),
      **settings,
    )
    static = run.target, run.drafter, run.verifier
    state = decoding.decode(*static, run.params, run.state)
    tokens, length = jax.device_get((state.tokens, state.length))
    beyond = np.arange(tokens.shape[1]) >= length[:, None]
    assert not np.any(tokens[beyond])  # nothing is written behind a row's end
    return [done.tokens for done in api.completions(MODELS['table'], run, state)]

  def test_a_stop_token_ends_the_row_and_is_its_last_token(self):
    base = plain('table')
    places = set()
    for stop in range(11):
      stop_ids = (stop, (stop + 1) % 11)
      want = []
      for done in base:
        hits = [i for i, token in enumerate(done.tokens) if token in stop_ids]
        places.update(hits[:1])
        want.append(done.tokens[: hits[0] + 1] if hits else done.tokens)
      assert self.run(base, stop_ids=stop_ids) == want
    assert {place % 5 for place in places} == {0, 1, 2, 3, 4}

  def test_max_new_tokens_is_met_exactly(self):
    base = plain('table')
    for first in range(0, 12, 3):
      numbers = [first, first + 1, first + 2]
      want = [done.tokens[:n] for done, n in zip(base, numbers)]
      assert self.run(base, max_new_tokens=numbers, stop_ids=()) == want

  def test_the_buffer_is_filled_to_its_end(self):
    base = plain('table')
    want = [done.tokens[:n] for done, n in zip(base, (28, 31, 12))]
    assert self.run(base, max_new_tokens=[28, 31, 12], stop_ids=(), max_len=192) == want

  def test_a_done_row_stays_as_it_is_while_others_go_on(self):
    base = plain('table')
    got = self.run(base, max_new_tokens=[NEW, 0, 1], stop_ids=())
    assert got == [base[0].tokens, [], base[2].tokens[:1]]


class TestStream:
  def test_pieces_add_up_to_what_decode_gives(self):
    settings = dict(
      drafter=PromptLookup(1, max_ngram=3, min_ngram=1),
      verifier=Gumbel(),
      temperature=0.3,
      max_new_tokens=NEW,
      stop_ids=(),
      seed=3,
    )
    prompt = PROMPTS['table'][2]
    (whole,) = specjax.decode(MODELS['table'], prompt, **settings)
    pieces = list(specjax.stream(MODELS['table'], prompt, **settings))
    assert sum((tokens for tokens, _ in pieces), []) == whole.tokens
    assert sum((trace for _, trace in pieces), []) == whole.trace
    assert len(pieces) == whole.target_calls
    assert {len(tokens) for tokens, _ in pieces} == {1, 2}

  def test_one_prompt_only(self):
    with pytest.raises(ValueError, match='one prompt, got 2'):
      next(specjax.stream(MODELS['table'], [[1], [2]]))
