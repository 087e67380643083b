"""The list of models a server offers. OpenAI and Anthropic send it in the same form."""

from __future__ import annotations

import json


def model_ids(body: bytes) -> tuple[str, ...]:
    """The names in a list of models, sorted; none if it cannot be read."""
    try:
        entries = json.loads(body)["data"]
        return tuple(sorted(str(entry["id"]) for entry in entries))
    except (ValueError, LookupError, TypeError):
        return ()
