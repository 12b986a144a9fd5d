"""Stop strings that end a row inside the compiled decode loop.

A string may start and end in the middle of tokens, so text is watched byte by byte: the
automaton of Aho & Corasick (1975), whose states are the beginnings of the strings,
remembers how much of a string the text ends with. `build` runs it over every token
from every state, once; the loop then reads one number a token.

  strings 'no', 'on'       states 2 = '', 3 = 'n', 4 = 'o'
  tokens  'x' 'n' 'ion'    'x': 2 2 2    'n': 3 3 0    'ion': 0 0 0
  row     'x' 'n' 'o'      2 -> 2 -> 3 -> 0, the final state: it ends with this token

U+FFFD in a string means that character, not the broken bytes that text shows so.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from specjax.types import Array

FINAL = 0  # the state of a row that holds one of its stop strings, for good
NEVER = 1  # the state of a row without stop strings, for good
MULTIPLE = 16  # of states in a table: other strings seldom need another program
MAX_ENTRIES = 2**26  # of a table, which has a row for each byte of the strings


@struct.dataclass
class StopStrings:
  """Each row's automaton and state. Rows with equal strings share an automaton.

  The automata stand below one another in one table, and a row's state says in which
  it is. They share the states FINAL and NEVER.
  """

  table: Array  # int16[Q, V] the state after each token
  state: Array  # int32[B]


def build(
  token_bytes: Sequence[bytes], strings: Sequence[Sequence[str]], vocab_size: int
) -> StopStrings:
  """Automata before the first new token.

  Args:
    token_bytes: `text.Tokenizer.token_bytes`; ids beyond them, up to V, have no bytes.
    strings: B lists of strings; the row ends where one is complete. [] never ends.
    vocab_size: the target's V.

  Raises:
    ValueError: an empty string, something else than strings, or far too many of them.
  """
  rules = [_rule(row, texts) for row, texts in enumerate(strings)]
  _check_size(rules, vocab_size)
  steps = [[FINAL] * 256, [NEVER] * 256]
  roots: dict[tuple[bytes, ...], int] = {(): NEVER}
  for rule in rules:
    if rule not in roots:
      roots[rule] = len(steps)
      steps += _automaton(rule, len(steps))
  states = -(-len(steps) // MULTIPLE) * MULTIPLE
  table = np.zeros((states, vocab_size), np.int16)
  table[: len(steps)] = _over_tokens(np.array(steps, np.int16), token_bytes, vocab_size)
  state = np.array([roots[rule] for rule in rules], np.int32)
  return StopStrings(jnp.asarray(table), jnp.asarray(state))


def advance(stops: StopStrings, new: Array) -> Array:
  """The state after each of the new tokens int32[B, W], int32[B, W].

  A row holds a stop string from the first token on whose state is FINAL.
  """

  def read(state, token):
    state = stops.table[state, token].astype(jnp.int32)
    return state, state

  _, states = jax.lax.scan(read, stops.state, new.T, unroll=True)
  return states.T


def after(stops: StopStrings, states: Array, count: Array) -> StopStrings:
  """Keeps the state at the first count int32[B] of the tokens `advance` was given.

  state 2, states 2 3 0 0: count 0 keeps 2, count 2 keeps 3, count 3 keeps 0
  """
  states = jnp.concatenate([stops.state[:, None], states], axis=1)
  state = jnp.take_along_axis(states, count[:, None], axis=1)[:, 0]
  return dataclasses.replace(stops, state=state)


def cut(text: str, strings: Sequence[str]) -> str:
  """The text before the stop string that begins first; all of it if there is none."""
  return text[: min((text.find(s) for s in strings if s in text), default=None)]


def _rule(row: int, texts: Sequence[str]) -> tuple[bytes, ...]:
  if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
    raise ValueError(f'row {row} needs a list of stop strings (str), got {texts!r}')
  if '' in texts:
    raise ValueError(
      f'row {row} has an empty stop string in {list(texts)!r}, which every text holds: '
      'leave it out'
    )
  return tuple(sorted({text.encode() for text in texts}))


def _check_size(rules: Sequence[tuple[bytes, ...]], vocab_size: int) -> None:
  size = sum(len(text) for rule in set(rules) for text in rule)
  most = min(MAX_ENTRIES // vocab_size, np.iinfo(np.int16).max) - 2 * MULTIPLE
  if size > most:
    raise ValueError(
      f'the stop strings have {size} bytes in all, at most {most} fit into a table for '
      f'{vocab_size} tokens: give fewer or shorter ones, or the same ones to more rows'
    )


def _automaton(strings: Sequence[bytes], root: int) -> list[list[int]]:
  """The next state for each state, from `root` on, and each of the 256 bytes.

  It is the longest end of what was read that begins a string. Beginnings that already
  hold a string are left out, so if a whole string was read, that string is found.

  'no', 'on' from root 2: after 'n' (3) comes 'o' -> 'no' -> 0; 'n' -> 'n' -> 3
  """
  beginnings = {text[:end] for text in strings for end in range(len(text))}
  live = [text for text in beginnings if not any(s in text for s in strings)]
  live.sort(key=lambda text: (len(text), text))
  number = {text: root + i for i, text in enumerate(live)}
  number |= dict.fromkeys(strings, FINAL)
  steps: list[list[int]] = []
  for text in live:
    ends = (text[start:] for start in range(1, len(text) + 1))
    shorter = next((number[end] for end in ends if end in number), None)
    otherwise = [root] * 256 if shorter is None else steps[shorter - root]
    steps.append(
      [number.get(text + bytes([byte]), otherwise[byte]) for byte in range(256)]
    )
  return steps


def _over_tokens(steps, token_bytes: Sequence[bytes], vocab_size: int) -> np.ndarray:
  """The state int16[Q, V] after all bytes of a token, from steps int16[Q, 256].

  Longest tokens first, so that those with an i-th byte stand in front.
  """
  tokens = list(token_bytes[:vocab_size])
  tokens += [b''] * (vocab_size - len(tokens))
  length = np.array([len(token) for token in tokens])
  order = np.argsort(-length, kind='stable')
  start = (np.cumsum(length) - length)[order]
  text = np.frombuffer(b''.join(tokens), np.uint8)
  states = np.tile(np.arange(len(steps), dtype=np.int16), (vocab_size, 1))
  for i in range(length.max(initial=0)):
    live = np.count_nonzero(length > i)
    byte = text[start[:live] + i]
    states[:live] = steps[states[:live], byte[:, None]]
  table = np.empty_like(states)
  table[order] = states
  return table.T
