"""Lossless speculative decoding in JAX: drafters, exact verifiers, one compiled loop.

model = specjax.load('smollm2-135m')
done = specjax.decode(model, [model.chat('Say hello.')], drafter=PromptLookup())
"""

from specjax import versions

versions.check()

from specjax.api import Completion, decode, stream  # noqa: E402
from specjax.model import Model, load  # noqa: E402

__all__ = ['Completion', 'Model', 'decode', 'load', 'stream']
