"""What checkpoints publish: config.json, parameter counts, tensor names and shapes.

The numbers are the publishers', none computed by specjax. Of config.json, all keys that
say something of the architecture stand here, also those that a reader must not fall for
(`sliding_window` beside `"use_sliding_window": false`); tokens, dtypes, dropout and the
library's version do not.
"""

import dataclasses
import json


@dataclasses.dataclass(frozen=True)
class Published:
  """One checkpoint. A tied head is no parameter and no tensor of its own.

  Attributes:
    parameters: the total, as the hub or the publisher's library counts it.
    tensors: how many entries the index has, without buffers and a tied head's copy.
    shapes: some of them.
    text: config.json.
  """

  parameters: int
  tensors: int
  shapes: dict[str, tuple[int, ...]]
  text: str

  @property
  def config(self) -> dict:
    """config.json, read."""
    return json.loads(self.text)


_ATTENTION = [f'self_attn.{x}_proj.weight' for x in 'qkvo']
_QK_NORMS = ['self_attn.q_norm.weight', 'self_attn.k_norm.weight']
_MLP = [f'mlp.{x}_proj.weight' for x in ('gate', 'up', 'down')]
_NORMS = ['input_layernorm.weight', 'post_attention_layernorm.weight']
_MORE_NORMS = ['pre_feedforward_layernorm.weight', 'post_feedforward_layernorm.weight']
_EXPERTS = [
  f'mlp.experts.{expert}.{x}_proj.weight'
  for expert in range(128)
  for x in ('gate', 'up', 'down')
]
_LLAMA = _ATTENTION + _MLP + _NORMS
LAYER_TENSORS = {
  'llama': _LLAMA,
  'mistral': _LLAMA,
  'qwen2': _LLAMA + [f'self_attn.{x}_proj.bias' for x in 'qkv'],
  'qwen3': _LLAMA + _QK_NORMS,
  'qwen3_moe': _ATTENTION + _NORMS + _QK_NORMS + ['mlp.gate.weight'] + _EXPERTS,
  'gemma2': _LLAMA + _MORE_NORMS,
  'gemma3_text': _LLAMA + _MORE_NORMS + _QK_NORMS,
}


def tensor_names(config: dict) -> set[str]:
  """The entries of the index, without buffers and a tied head's copy."""
  kind = config['model_type']
  names = {'model.embed_tokens.weight', 'model.norm.weight'}
  if not config.get('tie_word_embeddings', kind.startswith('gemma')):
    names.add('lm_head.weight')
  for depth in range(config['num_hidden_layers']):
    names |= {f'model.layers.{depth}.{tensor}' for tensor in LAYER_TENSORS[kind]}
  return names


CHECKPOINTS = {
  'meta-llama/Llama-3.1-8B-Instruct': Published(
    parameters=8030261248,
    tensors=291,
    shapes={
      'model.embed_tokens.weight': (128256, 4096),
      'lm_head.weight': (128256, 4096),
      'model.norm.weight': (4096,),
      'model.layers.31.self_attn.q_proj.weight': (4096, 4096),
      'model.layers.31.self_attn.k_proj.weight': (1024, 4096),
      'model.layers.0.mlp.down_proj.weight': (4096, 14336),
      'model.layers.0.post_attention_layernorm.weight': (4096,),
    },
    text="""{
      "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096,
      "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 8, "hidden_act": "silu", "attention_bias": false,
      "mlp_bias": false, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
      "max_position_embeddings": 131072, "rope_theta": 500000.0,
      "rope_scaling": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3"
      },
      "tie_word_embeddings": false
    }""",
  ),
  'meta-llama/Llama-3.2-1B': Published(
    parameters=1235814400,
    tensors=146,
    shapes={
      'model.embed_tokens.weight': (128256, 2048),
      'model.layers.15.self_attn.q_proj.weight': (2048, 2048),
      'model.layers.15.self_attn.v_proj.weight': (512, 2048),
      'model.layers.0.mlp.up_proj.weight': (8192, 2048),
    },
    text="""{
      "model_type": "llama", "vocab_size": 128256, "hidden_size": 2048,
      "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
      "num_key_value_heads": 8, "head_dim": 64, "hidden_act": "silu",
      "attention_bias": false, "mlp_bias": false, "pretraining_tp": 1,
      "rms_norm_eps": 1e-05, "max_position_embeddings": 131072, "rope_theta": 500000.0,
      "rope_scaling": {
        "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3"
      },
      "tie_word_embeddings": true
    }""",
  ),
  'meta-llama/Llama-2-7b-hf': Published(
    parameters=6738415616,
    tensors=291,
    shapes={
      'lm_head.weight': (32000, 4096),
      'model.layers.31.self_attn.k_proj.weight': (4096, 4096),
      'model.layers.31.mlp.gate_proj.weight': (11008, 4096),
      'model.layers.0.input_layernorm.weight': (4096,),
    },
    text="""{
      "model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
      "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 32, "hidden_act": "silu", "pretraining_tp": 1,
      "rms_norm_eps": 1e-05, "max_position_embeddings": 4096, "rope_scaling": null,
      "tie_word_embeddings": false
    }""",
  ),
  'TinyLlama/TinyLlama-1.1B-Chat-v1.0': Published(
    parameters=1100048384,
    tensors=201,
    shapes={
      'lm_head.weight': (32000, 2048),
      'model.layers.21.self_attn.k_proj.weight': (256, 2048),
      'model.layers.21.mlp.down_proj.weight': (2048, 5632),
    },
    text="""{
      "model_type": "llama", "vocab_size": 32000, "hidden_size": 2048,
      "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
      "num_key_value_heads": 4, "hidden_act": "silu", "attention_bias": false,
      "pretraining_tp": 1, "rms_norm_eps": 1e-05, "max_position_embeddings": 2048,
      "rope_theta": 10000.0, "rope_scaling": null, "tie_word_embeddings": false
    }""",
  ),
  'HuggingFaceTB/SmolLM2-135M-Instruct': Published(
    parameters=134515008,
    tensors=272,
    shapes={
      'model.embed_tokens.weight': (49152, 576),
      'model.layers.29.self_attn.k_proj.weight': (192, 576),
      'model.layers.29.self_attn.o_proj.weight': (576, 576),
      'model.layers.29.mlp.gate_proj.weight': (1536, 576),
    },
    text="""{
      "model_type": "llama", "vocab_size": 49152, "hidden_size": 576,
      "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
      "num_key_value_heads": 3, "hidden_act": "silu", "attention_bias": false,
      "mlp_bias": false, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
      "is_llama_config": true, "rope_interleaved": false,
      "max_position_embeddings": 8192, "rope_theta": 100000, "rope_scaling": null,
      "tie_word_embeddings": true
    }""",
  ),
  'mistralai/Mistral-7B-v0.1': Published(
    parameters=7241732096,
    tensors=291,
    shapes={
      'lm_head.weight': (32000, 4096),
      'model.layers.31.self_attn.k_proj.weight': (1024, 4096),
      'model.layers.31.mlp.down_proj.weight': (4096, 14336),
    },
    text="""{
      "model_type": "mistral", "vocab_size": 32000, "hidden_size": 4096,
      "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 8, "hidden_act": "silu", "rms_norm_eps": 1e-05,
      "max_position_embeddings": 32768, "rope_theta": 10000.0, "sliding_window": 4096,
      "tie_word_embeddings": false
    }""",
  ),
  'mistralai/Mistral-7B-Instruct-v0.3': Published(
    parameters=7248023552,
    tensors=291,
    shapes={
      'model.embed_tokens.weight': (32768, 4096),
      'lm_head.weight': (32768, 4096),
      'model.layers.31.self_attn.v_proj.weight': (1024, 4096),
    },
    text="""{
      "model_type": "mistral", "vocab_size": 32768, "hidden_size": 4096,
      "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 8, "hidden_act": "silu", "rms_norm_eps": 1e-05,
      "max_position_embeddings": 32768, "rope_theta": 1000000.0,
      "sliding_window": null, "tie_word_embeddings": false
    }""",
  ),
  'Qwen/Qwen2.5-0.5B-Instruct': Published(
    parameters=494032768,
    tensors=290,
    shapes={
      'model.embed_tokens.weight': (151936, 896),
      'model.layers.23.self_attn.q_proj.bias': (896,),
      'model.layers.23.self_attn.k_proj.bias': (128,),
      'model.layers.23.self_attn.v_proj.weight': (128, 896),
      'model.layers.23.mlp.up_proj.weight': (4864, 896),
    },
    text="""{
      "model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896,
      "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
      "num_key_value_heads": 2, "hidden_act": "silu", "rms_norm_eps": 1e-06,
      "max_position_embeddings": 32768, "max_window_layers": 21,
      "rope_theta": 1000000.0, "sliding_window": 32768, "use_sliding_window": false,
      "tie_word_embeddings": true
    }""",
  ),
  'Qwen/Qwen2.5-7B-Instruct': Published(
    parameters=7615616512,
    tensors=339,
    shapes={
      'lm_head.weight': (152064, 3584),
      'model.layers.27.self_attn.q_proj.bias': (3584,),
      'model.layers.27.self_attn.v_proj.bias': (512,),
      'model.layers.27.self_attn.k_proj.weight': (512, 3584),
      'model.layers.27.mlp.down_proj.weight': (3584, 18944),
    },
    text="""{
      "model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584,
      "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
      "num_key_value_heads": 4, "hidden_act": "silu", "rms_norm_eps": 1e-06,
      "max_position_embeddings": 32768, "max_window_layers": 28,
      "rope_theta": 1000000.0, "sliding_window": 131072, "use_sliding_window": false,
      "tie_word_embeddings": false
    }""",
  ),
  'Qwen/Qwen3-0.6B': Published(
    parameters=596049920,  # the hub says 751632384: it stores lm_head.weight as well
    tensors=310,
    shapes={
      'model.embed_tokens.weight': (151936, 1024),
      'model.layers.27.self_attn.q_proj.weight': (2048, 1024),
      'model.layers.27.self_attn.o_proj.weight': (1024, 2048),
      'model.layers.27.self_attn.q_norm.weight': (128,),
      'model.layers.27.self_attn.k_norm.weight': (128,),
    },
    text="""{
      "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024,
      "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
      "num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu",
      "attention_bias": false, "rms_norm_eps": 1e-06,
      "max_position_embeddings": 40960, "max_window_layers": 28, "rope_theta": 1000000,
      "rope_scaling": null, "sliding_window": null, "use_sliding_window": false,
      "tie_word_embeddings": true
    }""",
  ),
  'Qwen/Qwen3-8B': Published(
    parameters=8190735360,
    tensors=399,
    shapes={
      'lm_head.weight': (151936, 4096),
      'model.layers.35.self_attn.q_norm.weight': (128,),
      'model.layers.35.self_attn.k_proj.weight': (1024, 4096),
      'model.layers.35.mlp.gate_proj.weight': (12288, 4096),
    },
    text="""{
      "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096,
      "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
      "num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu",
      "attention_bias": false, "rms_norm_eps": 1e-06,
      "max_position_embeddings": 40960, "max_window_layers": 36, "rope_theta": 1000000,
      "rope_scaling": null, "sliding_window": null, "use_sliding_window": false,
      "tie_word_embeddings": false
    }""",
  ),
  'Qwen/Qwen3-30B-A3B': Published(
    parameters=30532122624,
    tensors=18867,
    shapes={
      'lm_head.weight': (151936, 2048),
      'model.layers.47.self_attn.q_proj.weight': (4096, 2048),
      'model.layers.47.self_attn.k_proj.weight': (512, 2048),
      'model.layers.47.self_attn.k_norm.weight': (128,),
      'model.layers.47.mlp.gate.weight': (128, 2048),
      'model.layers.47.mlp.experts.0.gate_proj.weight': (768, 2048),
      'model.layers.47.mlp.experts.127.up_proj.weight': (768, 2048),
      'model.layers.47.mlp.experts.127.down_proj.weight': (2048, 768),
    },
    text="""{
      "model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048,
      "intermediate_size": 6144, "moe_intermediate_size": 768,
      "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true,
      "decoder_sparse_step": 1, "mlp_only_layers": [],
      "output_router_logits": false, "router_aux_loss_coef": 0.001,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "head_dim": 128, "hidden_act": "silu", "attention_bias": false,
      "rms_norm_eps": 1e-06, "max_position_embeddings": 40960,
      "max_window_layers": 48, "rope_theta": 1000000.0, "rope_scaling": null,
      "sliding_window": null, "use_sliding_window": false,
      "tie_word_embeddings": false
    }""",
  ),
  'google/gemma-2-2b': Published(
    parameters=2614341888,
    tensors=288,
    shapes={
      'model.embed_tokens.weight': (256000, 2304),
      'model.layers.25.self_attn.q_proj.weight': (2048, 2304),
      'model.layers.25.self_attn.o_proj.weight': (2304, 2048),
      'model.layers.25.pre_feedforward_layernorm.weight': (2304,),
      'model.layers.25.post_feedforward_layernorm.weight': (2304,),
      'model.layers.25.post_attention_layernorm.weight': (2304,),
    },
    text="""{
      "model_type": "gemma2", "vocab_size": 256000, "hidden_size": 2304,
      "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
      "num_key_value_heads": 4, "head_dim": 256, "query_pre_attn_scalar": 256,
      "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
      "attention_bias": false, "attn_logit_softcapping": 50.0,
      "final_logit_softcapping": 30.0, "rms_norm_eps": 1e-06,
      "max_position_embeddings": 8192, "rope_theta": 10000.0, "sliding_window": 4096,
      "cache_implementation": "hybrid"
    }""",
  ),
  'google/gemma-2-9b': Published(
    parameters=9241705984,
    tensors=464,
    shapes={
      'model.embed_tokens.weight': (256000, 3584),
      'model.layers.41.self_attn.q_proj.weight': (4096, 3584),
      'model.layers.41.self_attn.k_proj.weight': (2048, 3584),
      'model.layers.41.self_attn.o_proj.weight': (3584, 4096),
      'model.layers.41.mlp.gate_proj.weight': (14336, 3584),
      'model.layers.41.pre_feedforward_layernorm.weight': (3584,),
    },
    text="""{
      "model_type": "gemma2", "vocab_size": 256000, "hidden_size": 3584,
      "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16,
      "num_key_value_heads": 8, "head_dim": 256, "query_pre_attn_scalar": 256,
      "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
      "attention_bias": false, "attn_logit_softcapping": 50.0,
      "final_logit_softcapping": 30.0, "rms_norm_eps": 1e-06,
      "max_position_embeddings": 8192, "rope_theta": 10000.0, "sliding_window": 4096,
      "sliding_window_size": 4096, "cache_implementation": "hybrid"
    }""",
  ),
  'google/gemma-3-1b-it': Published(
    parameters=999885952,
    tensors=340,
    shapes={
      'model.embed_tokens.weight': (262144, 1152),
      'model.layers.25.self_attn.q_proj.weight': (1024, 1152),
      'model.layers.25.self_attn.k_proj.weight': (256, 1152),
      'model.layers.25.self_attn.o_proj.weight': (1152, 1024),
      'model.layers.25.self_attn.q_norm.weight': (256,),
      'model.layers.25.self_attn.k_norm.weight': (256,),
      'model.layers.25.post_feedforward_layernorm.weight': (1152,),
    },
    text="""{
      "model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 1152,
      "intermediate_size": 6912, "num_hidden_layers": 26, "num_attention_heads": 4,
      "num_key_value_heads": 1, "head_dim": 256, "query_pre_attn_scalar": 256,
      "hidden_activation": "gelu_pytorch_tanh", "attention_bias": false,
      "attn_logit_softcapping": null, "final_logit_softcapping": null,
      "rms_norm_eps": 1e-06, "max_position_embeddings": 32768, "rope_theta": 1000000,
      "rope_local_base_freq": 10000, "rope_scaling": null, "sliding_window": 512,
      "sliding_window_pattern": 6, "cache_implementation": "hybrid"
    }""",
  ),
}
