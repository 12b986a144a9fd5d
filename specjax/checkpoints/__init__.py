"""Reading models from disk: Hugging Face directories and GGUF files."""

from specjax.checkpoints.checkpoint import Checkpoint
from specjax.checkpoints.gguf import load_gguf, packaged_smollm2
from specjax.checkpoints.hf import load_directory

__all__ = ['Checkpoint', 'load_directory', 'load_gguf', 'packaged_smollm2']
