"""Who wrote a document last: tells a person's edits from the program's own."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agent.workspace.files import Signature, Swap, Watch

_MOST_DOCUMENTS = 4096  # beyond it the oldest is forgotten: its next own write counts as a person's edit


@dataclass(slots=True)
class _Entry:
    seen: Signature | None
    edition: Signature | None


class EditLedger:
    """Remembers for each watched document which version a person made last. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, ...], _Entry] = OrderedDict()

    def observe(
        self, document: tuple[str, ...], probe: Callable[[], Signature | None]
    ) -> tuple[Signature | None, Signature | None]:
        """The present version as `probe` finds it, and the last version a person made. Starts watching the document."""
        with self._lock:
            present = probe()
            entry = self._entries.get(document)
            if entry is None:
                entry = self._entries[document] = _Entry(present, present)
                if len(self._entries) > _MOST_DOCUMENTS:
                    self._entries.popitem(last=False)
            elif entry.seen != present:
                entry.seen = entry.edition = present
            self._entries.move_to_end(document)
            return entry.seen, entry.edition

    def own(self, document: tuple[str, ...]) -> Watch:
        """To be entered around the program's own replacement of a document."""

        @contextmanager
        def watch(swap: Swap) -> Iterator[None]:
            with self._lock:
                entry = self._entries.get(document)
                if entry is not None and entry.seen != swap.before:
                    entry.edition = swap.before  # a person was here since the last look
                yield
                if entry is not None:
                    entry.seen = swap.after

        return watch
