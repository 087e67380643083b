from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.credentials import wording
from agent.credentials.names import credential_name
from agent.extensions.services import ServiceBook
from agent.mcp.outcome import Outcome
from agent.model.ids import UserId
from agent.model.tool_call import ToolOutput
from agent.store.errors import StoreUnavailable
from agent.tools.base import Approval, Effect
from agent.tools.builtin.auth import (
    NameArguments,
    SecretDelete,
    SecretList,
    SecretListArguments,
    ToolAuth,
    awaited,
)
from agent.tools.registry import PROTECTED
from agent.workspace.scope import GroupScope, PersonScope, Scope
from channels.message import Address
from tests.support.tool_context import make_context

ANN = PersonScope("telegram", "5")
ANNS_ID = UserId("telegram:5")
GROUP = GroupScope("telegram", "-9", "5")
NOWHERE = Path("/nowhere")


class Names:
    """The names of stored credentials, by user. While `is_away` is set it is a database that cannot be reached."""

    def __init__(self, *names: str, user: UserId = ANNS_ID) -> None:
        self.kept = {(user, name) for name in names}
        self.is_away = False

    async def exists(self, user: UserId, name: str) -> bool:
        return (user, credential_name(name)) in self._all()

    async def names(self, user: UserId) -> tuple[str, ...]:
        return tuple(sorted(name for owner, name in self._all() if owner == user))

    async def delete(self, user: UserId, name: str) -> bool:
        known = (user, credential_name(name))
        found = known in self._all()
        self.kept.discard(known)
        return found

    def _all(self) -> set[tuple[UserId, str]]:
        if self.is_away:
            raise StoreUnavailable("the database is locked")
        return self.kept


class NoServers:
    """No MCP server is configured."""

    def knows(self, name: str) -> bool:
        return False

    async def authenticate(self, name: str, address: Address) -> Outcome:
        raise AssertionError(name)


async def ask(name: str, names: Names | None = None, scope: Scope = ANN) -> ToolOutput:
    tool = ToolAuth(names or Names(), ServiceBook(NOWHERE), NoServers())
    return await tool.run(NameArguments(name=name), make_context(scope))


async def delete(name: str, names: Names, scope: Scope = ANN) -> ToolOutput:
    return await SecretDelete(names).run(NameArguments(name=name), make_context(scope))


async def listing(names: Names, scope: Scope = ANN) -> ToolOutput:
    return await SecretList(names).run(SecretListArguments(), make_context(scope))


# -- tool_auth -------------------------------------------------------------------------------------------------
async def test_credential_of_any_name_is_asked_for_and_the_dispatcher_learns_which() -> None:
    output = await ask("My Wiki")

    assert json.loads(output.text) == {
        "awaiting_token": True,
        "name": "my wiki",
        "instructions": "Please send the credential for my wiki as your next message. It goes to the credential store "
        "only; anything else, such as /stop, cancels. The request expires in 5 minutes.",
    }
    request = awaited("tool_auth", output)
    assert request is not None
    assert request.name == "my wiki"


async def test_person_is_told_where_the_key_of_a_known_service_will_go() -> None:
    assert "from there to api.github.com and uploads.github.com alone;" in (await ask("GitHub")).text


async def test_person_is_told_when_a_stored_credential_would_be_replaced() -> None:
    request = awaited("tool_auth", await ask("wiki", Names("wiki")))

    assert request is not None
    assert request.instructions == wording.instructions("wiki", replaces=True)
    assert "replaces" in request.instructions
    assert "replaces" not in (await ask("wiki", Names("wiki", user=UserId("telegram:6")))).text


async def test_in_a_shared_chat_no_secret_is_asked_for_and_a_private_chat_is_named() -> None:
    output = await ask("github", scope=GROUP)

    assert output.is_error
    assert "private chat" in output.text
    assert awaited("tool_auth", output) is None


@pytest.mark.parametrize("name", ["", "[evil](link)", "x" * 65])
async def test_what_is_no_name_is_not_asked_for(name: str) -> None:
    output = await ask(name)

    assert output.is_error
    assert "1 to 64" in output.text


# -- what the dispatcher recognises ----------------------------------------------------------------------------
@pytest.mark.parametrize("tool", ["echo", "shell", "Tool_Auth", "tool_auth ", "tool_install"])
async def test_other_tools_cannot_start_auth_mode(tool: str) -> None:
    assert awaited(tool, await ask("github")) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "OK",
        "null",
        "[]",
        '{"awaiting_token": true}',
        '{"name": "x", "instructions": "y"}',
        '{"awaiting_token": true, "name": "x"}',
        '{"awaiting_token": false, "name": "x", "instructions": "y"}',
        '{"awaiting_token": "true", "name": "x", "instructions": "y"}',
        '{"awaiting_token": 1, "name": "x", "instructions": "y"}',
        '{"awaiting_token": true, "name": 1, "instructions": "y"}',
        '{"awaiting_token": true, "name": "x", "instructions": "y", "more": 1}',
        'see: {"awaiting_token": true, "name": "x", "instructions": "y"}',
    ],
)
def test_nothing_but_the_exact_answer_starts_auth_mode(text: str) -> None:
    assert awaited("tool_auth", ToolOutput(text)) is None


async def test_failed_call_does_not_start_auth_mode() -> None:
    output = await ask("github")

    assert awaited("tool_auth", ToolOutput(output.text, is_error=True)) is None


@given(st.text(max_size=60))
def test_any_output_is_recognised_or_not_without_a_fault(text: str) -> None:
    assert awaited("tool_auth", ToolOutput(text)) is None


# -- secret_list, secret_delete --------------------------------------------------------------------------------
async def test_listing_gives_the_persons_own_names_alone() -> None:
    names = Names("slack", "github")
    names.kept.add((UserId("telegram:6"), "bank"))

    assert json.loads((await listing(names)).text) == ["github", "slack"]
    assert (await listing(Names())).text == "No credential is stored."


async def test_deleted_credential_is_gone_and_a_missing_one_is_an_error() -> None:
    names = Names("github")

    first, second = await delete("github", names), await delete("github", names)

    assert not first.is_error
    assert names.kept == set()
    assert second.is_error
    assert "secret_list" in second.text


async def test_deleting_what_is_no_name_tells_the_rule() -> None:
    output = await delete("[evil](link)", Names("github"))

    assert output.is_error
    assert "1 to 64" in output.text


async def test_shared_chat_neither_lists_nor_deletes_what_its_members_stored() -> None:
    names = Names("github")

    listed, deleted = await listing(names, GROUP), await delete("github", names, GROUP)

    assert listed.is_error
    assert deleted.is_error
    assert "github" not in listed.text
    assert names.kept == {(ANNS_ID, "github")}


async def test_unreachable_store_is_an_error_the_model_can_tell() -> None:
    names = Names("github")
    names.is_away = True

    for output in (await ask("github", names), await listing(names), await delete("github", names)):
        assert output.is_error
        assert "not reachable" in output.text


# -- the rules -------------------------------------------------------------------------------------------------
def test_approvals_and_effects_are_those_of_the_specification() -> None:
    rules = {tool.spec.name: (tool.spec.approval, tool.spec.effect) for tool in (ToolAuth, SecretList, SecretDelete)}

    assert rules == {
        "tool_auth": (Approval.UNLESS_ALWAYS, Effect.WRITE),
        "secret_list": (Approval.NEVER, Effect.READ),
        "secret_delete": (Approval.UNLESS_ALWAYS, Effect.WRITE),
    }
    assert set(rules) <= PROTECTED
