"""The message tool: where it sends, what it sends, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.model.tool_call import ToolOutput
from agent.safety.layer import SafetyLayer
from agent.store.blobs import Blob
from agent.store.errors import StoreUnavailable
from agent.tools.base import Approval, ToolContext
from agent.tools.builtin.attachments import MOST_BYTES
from agent.tools.builtin.message import Message, MessageArguments, approval_of
from agent.tools.builtin.posting import show_files
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope, Scope
from channels.message import Address
from tests.support.tool_context import make_context

SECRET = "our-own-configured-token"
ANN = PersonScope("telegram", "5")
GROUP = GroupScope("telegram", "-9", "5")
OWNERS_CHAT = Address(channel="slack", chat_id="D1")


class MemoryOutbox:
    """What was handed over. `is_away`: the database is."""

    def __init__(self) -> None:
        self.sent: list[tuple[Address, str, list[str]]] = []
        self.is_away = False

    async def post(self, context: ToolContext, address: Address, text: str, files: Sequence[Blob] = ()) -> bool:
        if self.is_away:
            raise StoreUnavailable("away")
        found = (address, text, [each.file.filename for each in files])
        is_new = found not in self.sent
        self.sent.append(found)
        return is_new


class SomePlaces:
    """Three channels; the operator is known on one."""

    channels = ("telegram", "slack", "web")

    async def find(self, channel: str, target: str) -> Address | None:
        return None if target == "away" else Address(channel=channel, chat_id=target)

    async def operator(self, channel: str | None) -> Sequence[Address]:
        return (OWNERS_CHAT,) if channel in (None, "slack") else ()


class Desk:
    """The tool at work in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.outbox = MemoryOutbox()
        self.tool = Message(self.outbox, SomePlaces(), root, SafetyLayer((SECRET,)).contains_secret)

    def put(self, path: str, data: bytes = b"words") -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)

    async def send(self, scope: Scope | None = None, content: str = "hi", **more: object) -> ToolOutput:
        arguments = MessageArguments.model_validate({"content": content} | more)
        return await self.tool.run(arguments, make_context(scope or OperatorScope()))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# -- where -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scope", [OperatorScope(), ANN, GROUP])
async def test_default_is_the_conversation_of_the_call(desk: Desk, scope: Scope) -> None:
    output = await desk.send(scope)

    assert not output.is_error
    assert desk.outbox.sent == [(make_context(scope).address, "hi", [])]


@pytest.mark.parametrize("named", [{"channel": "Telegram"}, {"target": "5"}, {"channel": "", "target": " "}])
async def test_own_conversation_may_be_named(desk: Desk, named: dict[str, str]) -> None:
    assert not (await desk.send(ANN, **named)).is_error


@pytest.mark.parametrize("scope", [ANN, GROUP])
@pytest.mark.parametrize("named", [{"target": "6"}, {"channel": "slack"}, {"channel": "slack", "target": "5"}])
async def test_others_are_kept_to_their_conversation(desk: Desk, scope: Scope, named: dict[str, str]) -> None:
    output = await desk.send(scope, **named)

    assert output.is_error
    assert "Nothing was sent" in output.text
    assert desk.outbox.sent == []


async def test_operator_reaches_others_and_is_told_where_it_went(desk: Desk) -> None:
    output = await desk.send(channel="slack", target="U9")

    assert desk.outbox.sent == [(Address(channel="slack", chat_id="U9"), "hi", [])]
    assert "slack chat U9" in output.text


async def test_channel_alone_is_the_operators_chat_there(desk: Desk) -> None:
    await desk.send(channel="slack")

    assert [address for address, _, _ in desk.outbox.sent] == [OWNERS_CHAT]


async def test_turn_without_a_chat_tells_the_operator_wherever_known(desk: Desk) -> None:
    context = make_context(OperatorScope())
    nowhere = Address(channel="routine", chat_id="morning")
    fields = {name: getattr(context, name) for name in context.__slots__}
    await desk.tool.run(MessageArguments(content="hi"), ToolContext(**fields | {"address": nowhere}))

    assert [address for address, _, _ in desk.outbox.sent] == [OWNERS_CHAT]


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ({"channel": "pigeon"}, "telegram, slack, web"),
        ({"channel": "web"}, "target"),
        ({"channel": "slack", "target": "away"}, "later"),
    ],
)
async def test_place_that_is_not_known_is_said(desk: Desk, named: dict[str, str], reason: str) -> None:
    output = await desk.send(OperatorScope(), **named)

    assert output.is_error
    assert reason in output.text


@pytest.mark.parametrize(
    ("named", "approval"),
    [
        ({}, Approval.NEVER),
        ({"target": "1"}, Approval.UNLESS_ALWAYS),
        ({"channel": "telegram"}, Approval.UNLESS_ALWAYS),
        ({"channel": ""}, Approval.UNLESS_ALWAYS),
    ],
)
def test_consent_is_asked_for_as_soon_as_a_place_is_named(named: dict[str, str], approval: Approval) -> None:
    assert approval_of(MessageArguments.model_validate({"content": "x"} | named)) is approval


# -- what --------------------------------------------------------------------------------------------------------
async def test_files_of_the_asker_go_along_in_order(desk: Desk) -> None:
    desk.put("users/telegram/5/b.txt")
    desk.put("users/telegram/5/charts/a.csv")
    output = await desk.send(ANN, "", attachments=["charts/a.csv", "/workspace/b.txt"])

    assert [names for _, _, names in desk.outbox.sent] == [["a.csv", "b.txt"]]
    assert "a.csv, b.txt" in output.text


@pytest.mark.parametrize(
    "path",
    [
        "../6/x.txt",
        "../../../x.txt",
        "/etc/passwd",
        "link.txt",
        "folder",
        "none.txt",
        ".env",
        "id_rsa",
        "MEMORY.md",
        "",
    ],
)
async def test_nothing_goes_where_one_file_is_out_of_reach(desk: Desk, path: str) -> None:
    for name in ("ok.txt", ".env", "id_rsa", "MEMORY.md", "folder/x"):
        desk.put(f"users/telegram/5/{name}")
    for name in ("x.txt", "users/telegram/6/x.txt"):
        desk.put(name)
    (desk.root / "users/telegram/5/link.txt").symlink_to(desk.root / "x.txt")

    output = await desk.send(ANN, attachments=["ok.txt", path])

    assert output.is_error
    assert str(desk.root) not in output.text
    assert desk.outbox.sent == []


async def test_what_a_group_remembers_of_one_member_is_no_attachment(desk: Desk) -> None:
    desk.put("groups/telegram/-9/people/5.md")

    assert (await desk.send(GROUP, attachments=["people/5.md"])).is_error


@pytest.mark.parametrize(
    "data",
    [
        f"key = {SECRET}".encode(),
        b"x" * 70_000 + SECRET.encode(),
        b"y " * 32_760 + SECRET.encode(),  # across the border of two pieces
        f"key = {SECRET}".encode("utf-16"),
    ],
)
async def test_secret_in_a_text_file_is_not_sent(desk: Desk, data: bytes) -> None:
    desk.put("notes.txt", data)
    output = await desk.send(attachments=["notes.txt"])

    assert output.is_error
    assert SECRET not in output.text
    assert desk.outbox.sent == []


async def test_secret_in_the_content_is_not_sent(desk: Desk) -> None:
    output = await desk.send(content=f"use {SECRET}")

    assert output.is_error
    assert desk.outbox.sent == []


async def test_message_of_nothing_is_refused(desk: Desk) -> None:
    assert (await desk.send(content="  ")).is_error


async def test_sizes_and_numbers_of_files_are_bounded(desk: Desk) -> None:
    desk.put("large.bin", b"\0" * (MOST_BYTES + 1))
    for number in range(11):
        desk.put(f"{number}.bin", b"\0" * (MOST_BYTES if number < 3 else 1))

    too_large = await desk.send(attachments=["large.bin"])
    too_many = await desk.send(attachments=[f"{number}.bin" for number in range(11)])
    too_much = await desk.send(attachments=["0.bin", "1.bin", "2.bin"])

    assert "20 MB" in too_large.text
    assert "10 files" in too_many.text
    assert "50 MB" in too_much.text
    assert desk.outbox.sent == []


# -- the outbox --------------------------------------------------------------------------------------------------
async def test_call_that_was_handed_over_before_says_so(desk: Desk) -> None:
    await desk.send()

    assert "not sent twice" in (await desk.send()).text


async def test_database_that_is_away_is_an_error_in_words(desk: Desk) -> None:
    desk.outbox.is_away = True
    output = await desk.send()

    assert output.is_error
    assert "Store" not in output.text


async def test_tool_shows_its_files_in_the_conversation_of_the_call() -> None:
    outbox, context = MemoryOutbox(), make_context(GROUP)
    await show_files(outbox, context, {"a.png": b"1", "b.png": b"2"}, "two pictures")

    assert outbox.sent == [(context.address, "two pictures", ["a.png", "b.png"])]
