"""Server-sent events, read from bytes as they arrive: the SDKs build an object per event, we need its data only."""

from __future__ import annotations


class EventReader:
    """Collects bytes and gives the data of each finished event, in order.

    Follows the HTML standard's event stream format: CR, LF and CRLF end lines, several `data` lines are joined by a
    newline, comments and other fields are skipped. An unfinished last event is never given, nor are pings: they are no
    progress.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._is_ping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that `chunk` completes."""
        buffer = self._rest + chunk if self._rest else chunk
        # A trailing CR may be half of a CRLF, so it waits for the next chunk.
        end = buffer.rfind(b"\n") + 1 or buffer.rfind(b"\r", 0, len(buffer) - 1) + 1
        self._rest = buffer[end:]
        events: list[bytes] = []
        for line in buffer[:end].splitlines():
            if not line:
                if self._data and not self._is_ping:
                    events.append(b"\n".join(self._data))
                self._data.clear()
                self._is_ping = False
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line == b"event: ping":
                self._is_ping = True
        return events
