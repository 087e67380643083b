from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.access import (
    Access,
    AccessPolicy,
    Allowed,
    DmPolicy,
    GroupPolicy,
    Ignored,
    NeedsPairing,
    access_warnings,
    decide_access,
)
from channels.message import Address, ChatType, IncomingMessage, MessageMetadata, Sender
from tests.support.builders import NOON

PERSON = Allowed(is_operator=False)
OPERATOR = Allowed(is_operator=True)


def make_policy(
    owner: str | None = "1",
    dm: str = "pairing",
    allow: tuple[str, ...] = (),
    group: str = "allowlist",
    groups: tuple[str, ...] = (),
) -> AccessPolicy:
    return AccessPolicy.of(owner, dm, allow, group, groups)


def message_from(
    user_id: str,
    *,
    username: str | None = None,
    display_name: str = "",
    chat_type: ChatType = ChatType.PRIVATE,
    chat_id: str = "9",
    addressed: bool = True,
) -> IncomingMessage:
    return IncomingMessage(
        message_id="m",
        address=Address(channel="telegram", chat_id=chat_id),
        sender=Sender(user_id=user_id, username=username, display_name=display_name),
        text="hello",
        metadata=MessageMetadata(chat_type=chat_type, addressed_to_bot=addressed),
        received_at=NOON,
    )


def decide(policy: AccessPolicy, message: IncomingMessage, *, is_paired: bool = False) -> Access:
    return decide_access(policy, message, is_paired=is_paired)


@pytest.mark.parametrize("dm", DmPolicy)
@pytest.mark.parametrize("group", GroupPolicy)
@pytest.mark.parametrize("chat_type", ChatType)
def test_the_owner_may_always_talk(dm: DmPolicy, group: GroupPolicy, chat_type: ChatType) -> None:
    policy = make_policy(dm=dm, group=group, groups=("other",))

    assert decide(policy, message_from("1", chat_type=chat_type)) == OPERATOR


def test_a_stranger_in_private_is_asked_to_pair_kept_out_or_let_in_as_the_policy_says() -> None:
    stranger = message_from("2")

    assert decide(make_policy(dm="pairing"), stranger) == NeedsPairing()
    assert isinstance(decide(make_policy(dm="allowlist"), stranger), Ignored)
    assert decide(make_policy(dm="open"), stranger) == PERSON


@pytest.mark.parametrize("dm", ["pairing", "allowlist"])
def test_a_paired_or_listed_person_is_let_in_but_commands_nothing(dm: str) -> None:
    assert decide(make_policy(dm=dm), message_from("2"), is_paired=True) == PERSON
    assert decide(make_policy(dm=dm, allow=("2",)), message_from("2")) == PERSON
    assert decide(make_policy(dm=dm, allow=("*",)), message_from("2")) == PERSON


@pytest.mark.parametrize("owner", [None, "", "  "])
@pytest.mark.parametrize("allow", [(), ("",), ("  ", "\t")])
def test_nothing_configured_means_closed(owner: str | None, allow: tuple[str, ...]) -> None:
    policy = make_policy(owner=owner, dm="allowlist", allow=allow)

    for chat_type in ChatType:
        assert isinstance(decide(policy, message_from("2", username="x", chat_type=chat_type)), Ignored)
        assert isinstance(decide(policy, message_from("", username="", chat_type=chat_type)), Ignored)


@pytest.mark.parametrize("entry", ["alice", "@alice", "@ALICE", "Alice"])
def test_a_name_on_the_list_matches_the_user_name_in_any_case(entry: str) -> None:
    policy = make_policy(dm="allowlist", allow=(entry,))

    assert decide(policy, message_from("2", username="Alice")) == PERSON
    assert decide(policy, message_from("2", username="@alice")) == PERSON


def test_a_display_name_decides_nothing() -> None:
    policy = make_policy(dm="allowlist", allow=("alice",))

    assert isinstance(decide(policy, message_from("2", display_name="alice")), Ignored)


@pytest.mark.parametrize("entry", ["1234567890", "U0ABCDEF"])
def test_a_name_chosen_to_look_like_a_listed_id_gives_no_access(entry: str) -> None:
    policy = make_policy(dm="allowlist", allow=(entry,))

    assert isinstance(decide(policy, message_from("2", username=entry)), Ignored)
    assert decide(policy, message_from(entry)) == PERSON


@pytest.mark.parametrize("chat_type", [t for t in ChatType if t is not ChatType.PRIVATE])
@pytest.mark.parametrize("dm", DmPolicy)
def test_a_stranger_in_a_shared_chat_is_dropped_and_never_offered_a_pairing(chat_type: ChatType, dm: DmPolicy) -> None:
    policy = make_policy(dm=dm)

    assert isinstance(decide(policy, message_from("2", chat_type=chat_type)), Ignored)


def test_shared_chats_take_the_listed_and_the_paired_or_everybody_or_nobody() -> None:
    def decided(group: str, *, allow: tuple[str, ...] = (), is_paired: bool = False) -> Access:
        policy = make_policy(group=group, allow=allow)
        return decide(policy, message_from("2", chat_type=ChatType.GROUP), is_paired=is_paired)

    assert decided("allowlist", allow=("2",)) == PERSON
    assert decided("allowlist", is_paired=True) == PERSON
    assert decided("open") == PERSON
    assert isinstance(decided("disabled", allow=("2",), is_paired=True), Ignored)


def test_a_list_of_chats_limits_where_the_bot_answers() -> None:
    policy = make_policy(group="open", groups=("-100",))

    assert decide(policy, message_from("2", chat_type=ChatType.SUPERGROUP, chat_id="-100")) == PERSON
    assert isinstance(decide(policy, message_from("2", chat_type=ChatType.SUPERGROUP, chat_id="-200")), Ignored)


def test_what_is_not_addressed_to_the_bot_in_a_shared_chat_is_ignored_even_from_the_owner() -> None:
    message = message_from("1", chat_type=ChatType.GROUP, addressed=False)

    assert isinstance(decide(make_policy(group="open"), message), Ignored)


def test_whoever_reaches_the_terminal_is_the_operator() -> None:
    assert decide(AccessPolicy(everyone_is_operator=True), message_from("anything")) == OPERATOR


def test_an_unknown_policy_word_is_an_error() -> None:
    with pytest.raises(ValueError, match="everyone"):
        make_policy(dm="everyone")


def test_warnings_advise_ids_and_name_open_doors() -> None:
    assert access_warnings("telegram", make_policy(allow=("1", "U0ABCDEF"))) == ()
    assert "@alice" in access_warnings("telegram", make_policy(allow=("@alice",)))[0]
    assert "anybody" in access_warnings("telegram", make_policy(dm="open"))[0]
    assert "closed" in access_warnings("telegram", make_policy(owner=None, dm="allowlist"))[0]


@given(
    user_id=st.sampled_from(["", "2", "alice"]),
    username=st.sampled_from([None, "", "@", "2", "1"]),
    dm=st.sampled_from(DmPolicy),
    group=st.sampled_from(GroupPolicy),
    chat_type=st.sampled_from(ChatType),
    is_paired=st.booleans(),
)
def test_nobody_but_the_owner_is_ever_the_operator(
    user_id: str, username: str | None, dm: DmPolicy, group: GroupPolicy, chat_type: ChatType, is_paired: bool
) -> None:
    policy = make_policy(owner="1", dm=dm, group=group, allow=("*",))

    assert (
        decide(policy, message_from(user_id, username=username, chat_type=chat_type), is_paired=is_paired) != OPERATOR
    )
