"""Encoded pieces of a conversation, kept as long as the values they were made from are in use.

A history only grows at its end and passes the same objects from call to call, so each message is encoded once. Values
are told apart by identity: comparing them would cost what encoding costs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Generic, TypeVar

from agent.model.tool_call import JsonValue

V = TypeVar("V")
R = TypeVar("R")


class Memo(Generic[V, R]):
    """Remembers `compute(value)` by the identity of `value`, up to about `limit` in the unit of `weigh`.

    Two generations: when the young one is full it becomes the old one and what is still used moves back, so a hit costs
    one dictionary look-up and no bookkeeping. Entries hold their value, so an identity is never taken over by another.
    """

    def __init__(self, compute: Callable[[V], R], weigh: Callable[[R], int], limit: int) -> None:
        self._compute = compute
        self._weigh = weigh
        self._half = limit // 2
        self._weight = 0
        self._young: dict[int, tuple[V, R]] = {}
        self._old: dict[int, tuple[V, R]] = {}

    def __call__(self, value: V) -> R:
        key = id(value)
        entry = self._young.get(key)
        if entry is None:
            entry = self._old.get(key) or (value, self._compute(value))
            self._keep(key, entry)
        return entry[1]

    def __len__(self) -> int:
        return len(self._young) + sum(1 for key in self._old if key not in self._young)

    def _keep(self, key: int, entry: tuple[V, R]) -> None:
        self._weight += self._weigh(entry[1])
        if self._weight > self._half:
            self._old, self._young, self._weight = self._young, {}, self._weigh(entry[1])
        self._young[key] = entry


def encode_json(value: JsonValue) -> bytes:
    """Compact JSON in UTF-8. Half a surrogate pair, which some platforms send, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")


def exact_decimal(number: float) -> float:
    """`number` as it was meant: a temperature that went through single precision is 0.7 again, not 0.69999998."""
    return round(number, 4)
