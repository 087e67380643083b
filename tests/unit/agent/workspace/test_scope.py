from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.workspace.scope import GroupScope, OperatorScope, PersonScope, Scope, scope_of
from channels.message import Address, ChatType

IDS = (
    st.text(max_size=12) | st.text(alphabet="aAbB01./_:%~-", max_size=5) | st.sampled_from(["U0ABC", "u0abc", "U0abc"])
)


@given(IDS, IDS, IDS, IDS)
def test_distinct_people_and_chats_have_distinct_folders_even_where_case_is_ignored(
    channel: str, one: str, other_channel: str, two: str
) -> None:
    if (channel, one) != (other_channel, two):
        assert _folded(PersonScope(channel, one)) != _folded(PersonScope(other_channel, two))
        assert _folded(GroupScope(channel, one)) != _folded(GroupScope(other_channel, two))
    assert _folded(PersonScope(channel, one)) != _folded(GroupScope(channel, one))


@given(IDS, IDS)
def test_a_folder_lies_exactly_three_names_deep_whatever_the_id(channel: str, one: str) -> None:
    for folder in (PersonScope(channel, one).folder, GroupScope(channel, one).folder):
        assert len(folder.parts) == 3
        assert not {".", "..", "~"} & set(folder.parts)
        assert all(len(part) <= 255 for part in folder.parts)


def test_ids_of_the_platforms_stay_readable() -> None:
    assert str(PersonScope("telegram", "700100").folder) == "users/telegram/700100"
    assert str(GroupScope("telegram", "-100200").folder) == "groups/telegram/-100200"
    assert str(PersonScope("slack", "U0ABC").folder) == "users/slack/U0ABC"
    assert str(PersonScope("web", "alice").folder) == "users/web/alice"


def test_a_very_long_id_still_fits_a_file_name() -> None:
    names = {PersonScope("web", "é" * length).folder.name for length in (400, 401)}

    assert len(names) == 2
    assert all(len(name) < 200 for name in names)


def test_a_shared_chat_is_nobodys_private_scope_not_even_the_operators() -> None:
    address = Address(channel="slack", chat_id="C01")

    for chat_type in ChatType:
        scope = scope_of(address, "U1", chat_type, is_operator=True)
        expected: Scope = OperatorScope() if chat_type is ChatType.PRIVATE else GroupScope("slack", "C01", "U1")
        assert scope == expected
    assert scope_of(address, "U1", ChatType.PRIVATE, is_operator=False) == PersonScope("slack", "U1")


def _folded(scope: Scope) -> str:
    return str(scope.folder).casefold()
