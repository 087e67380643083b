"""What is wrong with a configuration: every fault of it at once.

ConfigError
└── holds one Fault for each setting that cannot be used
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One setting that cannot be used. `name` is the variable or the key of the file, whichever was used."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


class ConfigError(Exception):
    """The settings cannot be used. `faults` lists all that is wrong, one for each setting, secrets masked."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        count = len(self.faults)
        head = "The configuration has a fault:" if count == 1 else f"The configuration has {count} faults:"
        super().__init__("\n".join([head, *(f"  {fault}" for fault in self.faults)]))
