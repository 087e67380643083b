"""The chat in a terminal, for the operator: lines in, answers as Markdown out.

The only importer of prompt-toolkit and rich.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import ClassVar, assert_never
from uuid import UUID

from markdown_it import MarkdownIt
from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout
from rich.box import ROUNDED
from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.panel import Panel
from rich.text import Text

from channels.base import Accept, ChannelHealth, ChannelLimits, ChannelState, Delivery, Uncertain
from channels.errors import ChannelError, Rejected
from channels.message import (
    Attachment,
    Draft,
    EarlierMessage,
    IncomingMessage,
    OutgoingMessage,
    ReplyKind,
    StepState,
    ToolStep,
)
from channels.one_shot import CHANNEL, CHAT_ID, OPERATOR_ID, console_message, visible, with_files_named

QUIT_WORDS = frozenset({"/quit", "/exit"})
HOW_TO_ANSWER = "Answer with yes, always or no."
PROMPT = "\x1b[1;36m›\x1b[0m "
PLACEHOLDER = "Write a message; /help lists the commands, Ctrl-D leaves"
DRAFT_LINES = 12
DRAFT_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where a console reads and writes; None: the process's own terminal."""

    input: Input | None = None
    output: Output | None = None


class ConsoleChannel:
    """A chat in the terminal. Escape or Ctrl-C stops the turn that runs; Ctrl-D, /quit and /exit call `quit`.

    A line enters the history file only when a thread has taken it: a secret that was asked for does not.
    With `is_interactive` False (a service without a terminal) nothing is read and answers are dropped.
    """

    name: ClassVar[str] = CHANNEL
    limits: ClassVar[ChannelLimits] = ChannelLimits(max_text=1_000_000, buttons=False, threads=False)

    def __init__(
        self,
        history_file: Path,
        quit: Callable[[], None],
        *,
        is_interactive: bool = True,
        terminal: Terminal | None = None,
    ) -> None:
        self._history_file = history_file
        self._quit = quit
        self._is_interactive = is_interactive
        self._terminal = terminal or Terminal()
        self._session: PromptSession[str] | None = None
        self._connected = asyncio.Event()
        self._busy = False
        self._draft: tuple[UUID, str] | None = None
        self._steps: dict[str, ToolStep] = {}
        self._finished: UUID | None = None
        self._stops = asyncio.Queue[None](maxsize=1)

    @property
    def health(self) -> ChannelHealth:
        return ChannelHealth(ChannelState.CONNECTED if self._connected.is_set() else ChannelState.STARTING)

    async def run(self, accept: Accept) -> None:
        """Read lines until cancelled."""
        if not self._is_interactive:
            self._connected.set()
            await asyncio.Event().wait()
        file = await asyncio.to_thread(_open_history, self._history_file)
        lines = await asyncio.to_thread(lambda: list(file.load_history_strings()))
        self._session = self._new_session(list(reversed(lines)))
        self._connected.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_stops(accept))
            group.create_task(self._read(self._session, file, accept))

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str:
        """Print the message above the prompt."""
        await self._connected.wait()
        await self._print_steps()
        if self._ends_turn(message):
            self._busy = False
            self._draft = None
            self._steps.clear()
            self._finished = message.id
        await self._print(render(message))
        return str(message.id)

    async def show(self, draft: Draft) -> str | None:
        """Show the text so far, or that the bot is working, in the lines above the prompt."""
        if draft.id == self._finished or not self._connected.is_set():
            return None
        self._busy = True
        self._draft = (draft.id, visible(draft.text))
        self._redraw()
        return None

    async def show_step(self, step: ToolStep) -> None:
        """Show a tool call dimly: in the live lines while it runs, in the scrollback when it has ended."""
        self._steps[step.call_id] = step
        if step.state is not StepState.STARTED:
            await self._print_steps()
        self._redraw()

    async def settle(self, message: OutgoingMessage, delivery: Delivery) -> Uncertain:
        """Print it again: the terminal it may have been printed on is gone."""
        return Uncertain.RESEND

    async def open_private_chat(self, user_id: str) -> str:
        if user_id != OPERATOR_ID:
            raise Rejected(self.name, "the terminal has no user but the operator")
        return CHAT_ID

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        return ()  # the terminal has no threads that others write in

    async def fetch(self, attachment: Attachment, limit_bytes: int) -> bytes:
        raise Rejected(self.name, "the terminal brings no files")

    async def _read(self, session: PromptSession[str], file: FileHistory, accept: Accept) -> None:
        with patch_stdout(raw=True):
            while True:
                try:
                    # Signals belong to the program: prompt-toolkit would take over the handler of SIGINT.
                    line = await session.prompt_async(self._live_lines, handle_sigint=False)
                except EOFError:
                    self._quit()
                    return
                text = line.strip()
                if text in QUIT_WORDS:
                    self._quit()
                    return
                if text:
                    await self._submit(text, file, accept)

    async def _submit(self, text: str, file: FileHistory, accept: Accept) -> None:
        try:
            accepted = await accept(console_message(text))
        except ChannelError:
            await self._print(
                Text("The bot cannot take this now; nothing was kept. Try again in a moment.", style="red")
            )
            return
        if accepted.note:
            await self._print(Text(visible(accepted.note), style="dim"))
        if accepted.thread_id is not None:
            await asyncio.to_thread(file.store_string, text)
            self._redraw()

    async def _send_stops(self, accept: Accept) -> None:
        while True:
            await self._stops.get()
            await accept(console_message("/stop"))

    def _new_session(self, lines: list[str]) -> PromptSession[str]:
        return PromptSession(
            history=InMemoryHistory(lines),
            key_bindings=self._keys(),
            input=self._terminal.input,
            output=self._terminal.output,
            reserve_space_for_menu=0,
            placeholder=ANSI(f"\x1b[2m{PLACEHOLDER}\x1b[0m"),
        )

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("escape", eager=True, filter=Condition(lambda: self._busy))
        def stop(event: KeyPressEvent) -> None:
            self._ask_to_stop()

        @keys.add("c-c")
        def interrupt(event: KeyPressEvent) -> None:
            if self._busy:
                self._ask_to_stop()
            else:
                event.current_buffer.reset()

        @keys.add("escape", "enter")
        def new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return keys

    def _ask_to_stop(self) -> None:
        if not self._stops.full():
            self._stops.put_nowait(None)

    def _live_lines(self) -> ANSI:
        """The prompt, below what the bot is doing now."""
        lines = [_step_line(step) for step in self._steps.values()]
        if self._draft is not None and self._draft[1]:
            lines += self._draft[1].rstrip()[-DRAFT_CHARACTERS:].split("\n")[-DRAFT_LINES:]
        elif self._busy and not lines:
            lines.append("working")
        above = "".join(f"\x1b[2m{line}\x1b[0m\n" for line in lines)
        return ANSI(f"{above}{PROMPT}")

    def _ends_turn(self, message: OutgoingMessage) -> bool:
        """Whether nothing runs any more. The reply to a command that was typed while a turn goes on ends nothing."""
        match message.kind:
            case ReplyKind.ANSWER | ReplyKind.APPROVAL:
                return True
            case ReplyKind.NOTICE | ReplyKind.ERROR:
                return self._draft is None or self._draft[0] == message.id
            case ReplyKind.MESSAGE | ReplyKind.FINDING | ReplyKind.AMENDMENT:
                return False
            case unreachable:
                assert_never(unreachable)

    def _redraw(self) -> None:
        if self._session is not None and self._session.app.is_running:
            self._session.app.invalidate()

    async def _print_steps(self) -> None:
        """Move ended steps to the scrollback."""
        ended = [step for step in self._steps.values() if step.state is not StepState.STARTED]
        for step in ended:
            del self._steps[step.call_id]
        if ended:
            await self._print(Text("\n".join(_step_line(step) for step in ended), style="dim"))

    async def _print(self, renderable: RenderableType) -> None:
        if self._session is None:
            return
        output = self._session.app.output
        text = to_ansi(renderable, min(output.get_size().columns, 110))
        async with in_terminal():
            output.write_raw(text.replace("\n", "\r\n"))
            output.flush()


_CARDS: Mapping[ReplyKind, tuple[str, str]] = {
    ReplyKind.APPROVAL: ("Approval needed", "yellow"),
    ReplyKind.ERROR: ("Error", "red"),
    ReplyKind.FINDING: ("Heartbeat", "cyan"),
}


def render(message: OutgoingMessage) -> RenderableType:
    """A message as it appears in the terminal: questions, errors and findings as cards, notices dimly.

    Files are named below the text: they lie in the folder of the one who asked.
    """
    text = visible(with_files_named(message))
    match message.kind:
        case ReplyKind.ANSWER | ReplyKind.MESSAGE:
            return markdown(text)
        case ReplyKind.NOTICE | ReplyKind.AMENDMENT:
            return markdown(text, style="dim")
        case ReplyKind.APPROVAL | ReplyKind.ERROR | ReplyKind.FINDING:
            title, color = _CARDS[message.kind]
            footer = HOW_TO_ANSWER if message.kind is ReplyKind.APPROVAL else None
            return Panel(
                markdown(text), title=title, title_align="left", subtitle=footer, border_style=color, box=ROUNDED
            )
        case unreachable:
            assert_never(unreachable)


def markdown(text: str, style: str = "none") -> Markdown:
    """Markdown that loses nothing: tags stay visible, pictures and links show their address, line ends are kept.

    rich's own parse drops tags and pictures' addresses and joins lines.
    """
    rendered = Markdown("", style=style, code_theme="ansi_dark", hyperlinks=False)
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.disable(["image", "reference"])
    rendered.parsed = parser.parse(text)
    for token in rendered.parsed:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return rendered


def to_ansi(renderable: RenderableType, width: int) -> str:
    """What rich draws, as text with colour codes."""
    page = StringIO()
    Console(file=page, force_terminal=True, color_system="standard", width=width, highlight=False).print(renderable)
    return page.getvalue()


def _step_line(step: ToolStep) -> str:
    mark = {StepState.STARTED: "…", StepState.SUCCEEDED: "✓", StepState.FAILED: "✕"}[step.state]
    detail = visible(step.detail).split("\n", 1)[0][:100]
    return f"{mark} {visible(step.name)}{f'  {detail}' if detail else ''}"


def _open_history(path: Path) -> FileHistory:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    return FileHistory(path)
