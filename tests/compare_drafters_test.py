"""Drafters with weights in a comparison: from the config to the rows."""

import json

import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from configs import common
from experiments import compare, methods, questions
from specjax.drafters.draft_model import DraftModel
from specjax.targets import from_checkpoint
from specjax.testing import tiny, toy_text

pytestmark = pytest.mark.usefixtures('compile_quickly')

CONFIG = dict(
  model_type='llama',
  vocab_size=toy_text.VOCAB_SIZE + 5,  # padded, unlike the target's
  hidden_size=16,
  intermediate_size=32,
  num_hidden_layers=1,
  num_attention_heads=2,
  max_position_embeddings=512,
  rms_norm_eps=1e-5,
  tie_word_embeddings=True,
)
TEXTS = 'abcabcabcabc', 'to be or not to be'
PROMPTS = [questions.Prompt(i, i, 'qa', (text,)) for i, text in enumerate(TEXTS)]


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
  """A draft model as Hugging Face writes it."""
  path = tmp_path_factory.mktemp('draft')
  rng = np.random.default_rng(0)
  tensors = {
    name: rng.normal(size=shape, scale=0.3).astype(np.float32)
    for name, shape in from_checkpoint.tensor_shapes(CONFIG).items()
  }
  safetensors_numpy.save_file(tensors, path / 'model.safetensors')
  (path / 'config.json').write_text(json.dumps(CONFIG))
  toy_text.toy_tokenizer().backend.save(str(path / 'tokenizer.json'))
  return str(path)


def test_a_draft_model_comes_with_its_weights(directory):
  settings = dict(name='draft_model', source=directory, num_draft=2)
  drafter, params = methods.drafter(settings, tiny.tiny_model())
  assert isinstance(drafter, DraftModel) and drafter.vocab_size == 259
  assert params['embedding'].shape == (16, 264)


def test_how_each_method_drew_its_drafts_is_written_down(directory, tmp_path):
  config = common.compare()
  config.max_new_tokens, config.repeats, config.phase_prompts = 12, 1, 0
  config.floor_positions = 0
  config.top_p = 0.9
  draft = dict(name='draft_model', source=directory, num_draft=2)
  config.methods.plain_t1 = dict(drafter=dict(name='autoregressive'), temperature=1.0)
  config.methods.greedy = dict(drafter=draft, verifier=dict(name='greedy'))
  config.methods.gumbel = dict(drafter=draft, temperature=1.0)
  config.methods.rejection = dict(
    drafter=dict(name='self_speculative', num_layers=1, num_draft=2),
    verifier=dict(name='rejection'),
    temperature=1.0,
  )
  compare.compare(tiny.tiny_model(), PROMPTS, config, tmp_path)
  about = json.loads((tmp_path / 'methods.json').read_text())
  assert {name: entry['draft_sampling'] for name, entry in about.items()} == {
    'baseline': 'none',
    'plain_t1': 'none',
    'greedy': 'deterministic',
    'gumbel': 'shared_noise',
    'rejection': 'sampled',
  }
  assert about['gumbel']['drafter'] == draft
  lines = (tmp_path / 'results.jsonl').read_text().splitlines()
  same = {(r['method'], r['identical_to_baseline']) for r in map(json.loads, lines)}
  assert same == {
    ('baseline', True),
    ('plain_t1', True),
    ('greedy', True),
    ('gumbel', True),
    ('rejection', None),
  }
