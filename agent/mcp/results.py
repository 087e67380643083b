"""What a server answered to a call, as text for the model: text as it is, everything else by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from agent.mcp.words import clean_text
from agent.model.tool_call import ToolOutput

LONGEST_RESULT = 400_000
"""Characters that are kept. The executor shows less and archives what it is given."""

_LONGEST_NAME = 200


def call_output(raw: Mapping[str, object], hide: Callable[[str], str]) -> ToolOutput:
    """The output of a call from the server's own record of it. `hide` masks what the server was sent as a secret."""
    content = raw.get("content")
    parts = [_part(part) for part in content] if isinstance(content, list) else []
    structured = raw.get("structuredContent")
    texts = [part for part in parts if part]
    if structured is not None and not _repeats(texts, structured):
        texts.append(_json(structured))
    return ToolOutput(hide(_bounded(texts)), is_error=raw.get("isError") is True)


def _part(part: object) -> str:
    if not isinstance(part, Mapping):
        return ""
    kind, text = part.get("type"), part.get("text")
    match kind:
        case "text":
            return text if isinstance(text, str) else ""
        case "image" | "audio":
            data = part.get("data")
            size = len(data) * 3 // 4 if isinstance(data, str) else 0
            return f"[{kind}, {_word(part.get('mimeType'))}, {size} bytes: not shown]"
        case "resource_link":
            return f"[resource {_word(part.get('name'))}: {_word(part.get('uri'))}]"
        case "resource":
            return _resource(part.get("resource"))
        case _:
            return "[a part of a kind that is not known]"


def _resource(resource: object) -> str:
    if not isinstance(resource, Mapping):
        return ""
    text = resource.get("text")
    if isinstance(text, str):
        return f"[resource {_word(resource.get('uri'))}]\n{text}"
    return f"[resource {_word(resource.get('uri'))}, {_word(resource.get('mimeType'))}: not shown]"


def _repeats(texts: Iterable[str], structured: object) -> bool:
    """Whether a text says the same: servers send both for older clients."""
    for text in texts:
        try:
            if json.loads(text) == structured:
                return True
        except (ValueError, RecursionError):
            continue
    return False


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "[a structure that is nested too deeply]"


def _word(value: object) -> str:
    return clean_text(value, _LONGEST_NAME) if isinstance(value, str) and value else "unnamed"


def _bounded(texts: Iterable[str]) -> str:
    joined, room = [], LONGEST_RESULT
    for text in texts:
        if len(text) > room:
            joined.append(text[:room] + f"\n[cut: the first {LONGEST_RESULT} characters are kept]")
            break
        joined.append(text)
        room -= len(text) + 1
    return "\n".join(joined)
