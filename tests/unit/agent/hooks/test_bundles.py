from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from agent.hooks.base import (
    FailureMode,
    InboundEvent,
    OutboundEvent,
    Passed,
    PassedCall,
    Point,
    ResponseEvent,
    Stopped,
    ToolEvent,
)
from agent.hooks.bundles import LIMIT_BYTES, Bundles, HookBundles, load_bundles, read_bundle
from agent.hooks.runner import HookRunner
from agent.model.ids import UserId
from tests.support.fake_clock import FakeClock

ANN = UserId("telegram:5")


async def no_post(url: str, headers: Mapping[str, str], payload: Mapping[str, object]) -> int:
    raise AssertionError("nothing is posted here")


def rule(**entry: object) -> dict[str, object]:
    return {"name": "a rule", "points": ["beforeInbound"], **entry}


def bundles_of(*rules: object, webhooks: Iterable[object] = ()) -> Bundles:
    return read_bundle(
        "hooks.json",
        {"rules": list(rules), "outbound_webhooks": list(webhooks)},
        no_post,
        FakeClock(),
    )


def runner_of(*rules: object) -> HookRunner:
    found = bundles_of(*rules)
    assert found.faults == ()
    runner = HookRunner()
    runner.replace_source("hooks.json", found.hooks)
    return runner


async def outcome(text: str, *rules: object) -> Passed | Stopped:
    return await runner_of(*rules).inbound(InboundEvent(ANN, "telegram", text, "t1"))


# -- rules -------------------------------------------------------------------------------------------------------
async def test_rule_refuses_what_its_expression_matches_and_nothing_else() -> None:
    no_cards = rule(when_regex=r"\b\d{16}\b", reject_reason="no card numbers here")

    assert await outcome("pay 4111111111111111 now", no_cards) == Stopped("no card numbers here")
    assert await outcome("pay now", no_cards) == Passed("pay now")


async def test_rule_replaces_then_prepends_and_appends() -> None:
    changing = rule(
        replacements=[
            {"pattern": r"(\w+)@(\w+)", "replacement": "$1 at $2 for $$5 ($0)"},
            {"pattern": "at", "replacement": "AT"},
        ],
        prepend="<",
        append=">",
    )

    assert await outcome("ann@home", changing) == Passed("<ann AT home for $5 (ann@home)>")
    assert await outcome("grün, ä@ö", rule(replacements=[{"pattern": "ü", "replacement": "ÿ\\n"}])) == Passed(
        "grÿ\\nn, ä@ö"
    )


async def test_rule_changes_only_where_its_expression_matches() -> None:
    politely = rule(when_regex="(?i)^please", append=" Thank you.")

    assert await outcome("Please wait.", politely) == Passed("Please wait. Thank you.")
    assert await outcome("Wait.", politely) == Passed("Wait.")


async def test_half_a_character_does_not_get_a_text_past_a_rule() -> None:
    assert await outcome("secret \ud83d", rule(when_regex="secret", reject_reason="no")) == Stopped("no")


async def test_expression_that_would_hold_another_engine_for_ever_is_done_at_once() -> None:
    evil = rule(when_regex="(a+)+$", reject_reason="no")

    assert await outcome("a" * 50_000 + "b", evil) == Passed("a" * 50_000 + "b")


async def test_text_with_too_many_matches_is_left_or_refused_as_the_rule_says() -> None:
    many = {"replacements": [{"pattern": "x", "replacement": "-" * 500}]}
    text = "x" * 50_000

    assert await outcome(text, rule(**many)) == Passed(text)
    stopped = await outcome(text, rule(**many, failure_mode="fail_closed"))
    assert isinstance(stopped, Stopped)
    assert stopped.by_fault


async def test_rule_at_a_call_looks_at_its_arguments_as_json() -> None:
    masks = rule(points=["beforeToolCall"], replacements=[{"pattern": "/etc/[a-z]+", "replacement": "/nowhere"}])
    breaks = rule(points=["beforeToolCall"], append="}")
    event = ToolEvent("shell", {"command": "cat /etc/shadow", "note": "grün"}, ANN, "chat")

    assert await runner_of(masks).before_tool(event) == PassedCall({"command": "cat /nowhere", "note": "grün"})
    assert await runner_of(breaks).before_tool(event) == PassedCall()
    refused = await runner_of(rule(points=["beforeToolCall"], when_regex="grün", reject_reason="no")).before_tool(event)
    assert refused == Stopped("no")


async def test_rule_at_replies_looks_at_their_text() -> None:
    runner = runner_of(rule(points=["transformResponse", "beforeOutbound"], append="!"))

    assert await runner.response(ResponseEvent(ANN, "t1", "hi")) == Passed("hi!")
    assert await runner.outbound(OutboundEvent(ANN, "telegram", "hi", "t1")) == Passed("hi!")


def test_rule_says_when_and_how_it_runs() -> None:
    (hook,) = bundles_of(
        rule(
            points=["beforeOutbound", "transformResponse"],
            priority=7,
            failure_mode="fail_closed",
            timeout_ms=1500,
            append="!",
        )
    ).hooks

    assert hook.name == "hooks.json::a rule"
    assert hook.points == {Point.BEFORE_OUTBOUND, Point.TRANSFORM_RESPONSE}
    assert (hook.priority, hook.failure_mode, hook.timeout.total_seconds()) == (7, FailureMode.CLOSED, 1.5)
    assert not hook.observes


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("no object", "valid dictionary"),
        (rule(), "does nothing"),
        (rule(append="!", points=[]), "points"),
        (rule(append="!", points=["beforeBreakfast"]), "points"),
        (rule(append="!", points=["onSessionEnd"]), "nothing to refuse"),
        (rule(append="!", name=""), "name"),
        (rule(append="!", name="a::b"), "name"),
        (rule(append="!", apend="?"), "apend"),
        (rule(append="!", timeout_ms=0), "timeout_ms"),
        (rule(append="!", timeout_ms=30_001), "timeout_ms"),
        (rule(append="!", when_regex="("), "cannot be used"),
        (rule(append="!", when_regex="(?<=a)b"), "cannot be used"),
        (rule(append="!", when_regex="(x{900}){900}"), "expression"),
        (rule(append="!", when_regex="(?i)[a-zà-ÿ]{1000}"), "too large"),
        (rule(append="!", when_regex="\ud800"), "unicode"),
        (rule(replacements=[{"pattern": "a", "replacement": "$1"}]), "group 1"),
        (rule(replacements=[{"pattern": "a", "replacement": "$x"}]), r"\$ is followed"),
        (rule(append="!", failure_mode="fail_softly"), "failure_mode"),
    ],
)
def test_rule_that_cannot_be_used_is_left_out_by_name_and_the_others_stay(entry: object, said: str) -> None:
    found = bundles_of(rule(name="first", append="1"), entry, rule(name="last", append="2"))

    assert [hook.name for hook in found.hooks] == ["hooks.json::first", "hooks.json::last"]
    (fault,) = found.faults
    assert re.search(said, fault.reason), fault.reason


def test_second_rule_of_a_name_and_unknown_lists_are_faults() -> None:
    document = {"rules": [rule(append="1"), rule(append="2")], "rulez": [], "outbound_webhooks": {}}

    found = read_bundle("hooks.json", document, no_post, FakeClock())

    assert len(found.hooks) == 1
    assert {fault.entry for fault in found.faults} == {"a rule", "rulez", "outbound_webhooks"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["rules", "outbound_webhooks", "name", "points", "url", "headers", "append", "x"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_document_is_read_without_a_fault_of_ours(document: object) -> None:
    found = read_bundle("hooks.json", document, no_post, FakeClock())

    assert isinstance(found, Bundles)


# -- webhooks in files -------------------------------------------------------------------------------------------
def webhook(**entry: object) -> dict[str, object]:
    return {"name": "told", "points": ["onSessionStart"], "url": "https://hooks.example/in", **entry}


def test_webhook_looks_on_late_and_briefly() -> None:
    (hook,) = bundles_of(webhooks=[webhook()]).hooks

    assert (hook.priority, hook.timeout.total_seconds(), hook.observes) == (300, 2, True)


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/",
        "https://ann:pass@hooks.example/",
        "https://hooks.example/?api_key=1",
        "https://localhost/",
        "https://LOCALHOST./",
        "https://127.0.0.1/",
        "https://10.0.0.5/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://169.254.169.254/latest",
        "https://printer/",
        "https://nas.local/",
        "https://db.internal./",
        "no address",
    ],
)
def test_webhook_to_a_place_that_is_none_of_the_internet_is_left_out(url: str) -> None:
    found = bundles_of(webhooks=[webhook(url=url)])

    assert found.hooks == ()
    assert [fault.entry for fault in found.faults] == ["told"]


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "authorization", "Proxy-Authorization", "X-Auth", "X-Api-Key", "Cookie", "Content-Length"),
        *("Connection", "Transfer-Encoding", "TE", "Upgrade", "X-Session-Token", "a b", "", "X\r\nHost"),
    ],
)
def test_webhook_with_a_header_that_is_not_its_business_is_left_out(name: str) -> None:
    assert bundles_of(webhooks=[webhook(headers={name: "1"})]).hooks == ()


@pytest.mark.parametrize("value", ["1\r\nHost: x", "ü", "\x00", "x" * 1001])
def test_webhook_with_a_header_that_cannot_be_sent_is_left_out(value: str) -> None:
    assert bundles_of(webhooks=[webhook(headers={"X-Source": value})]).hooks == ()
    assert len(bundles_of(webhooks=[webhook(headers={"X-Source": "bot"})]).hooks) == 1


# -- files -------------------------------------------------------------------------------------------------------
class Files:
    """The folder of hooks in a workspace, and the runner that follows it."""

    def __init__(self, workspace: Path) -> None:
        self.folder = workspace / "hooks"
        self.folder.mkdir()
        self.runner = HookRunner()
        self.bundles = HookBundles(workspace, self.runner, no_post, FakeClock())

    def write(self, name: str, *rules: object) -> None:
        (self.folder / name).write_text(json.dumps({"rules": list(rules)}))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def test_files_are_read_by_their_names(files: Files, tmp_path: Path) -> None:
    files.write("hooks.json", rule(name="one", append="1"))
    files.write("team.hook.json", rule(name="one", append="2"))
    files.write("notes.json", rule(name="three", append="3"))
    files.write(".hook.json", rule(name="four", append="4"))

    await files.bundles.refresh()

    assert files.runner.names == ("hooks.json::one", "team.hook.json::one")
    assert len(load_bundles(tmp_path, no_post, FakeClock()).hooks) == 2


async def test_workspace_without_a_folder_of_hooks_has_none(tmp_path: Path) -> None:
    runner = HookRunner()

    await HookBundles(tmp_path / "nowhere", runner, no_post, FakeClock()).refresh()

    assert runner.names == ()


async def test_change_of_a_file_counts_at_the_next_look(files: Files) -> None:
    files.write("hooks.json", rule(name="one", append="1"), rule(name="two", append="2"))
    files.runner.register(bundles_of(rule(name="other", append="o")).hooks[0])
    await files.bundles.refresh()

    files.write("hooks.json", rule(name="three", append="3"))
    await files.bundles.refresh()
    assert list(files.runner.names) == ["hooks.json::three"]

    (files.folder / "hooks.json").unlink()
    await files.bundles.refresh()
    assert list(files.runner.names) == []


async def test_file_that_stays_is_not_read_again(files: Files) -> None:
    files.write("hooks.json", rule(append="1"))
    await files.bundles.refresh()
    files.runner.unregister("hooks.json::a rule")

    await files.bundles.refresh()

    assert files.runner.names == ()


@pytest.mark.parametrize("text", ["{", "[]", "5", "x" * (LIMIT_BYTES + 1), "[" * 100_000, "\ufeff{"])
async def test_file_that_an_edit_broke_keeps_its_hooks_and_is_said(files: Files, text: str) -> None:
    files.write("hooks.json", rule(when_regex="secret", reject_reason="no"))
    await files.bundles.refresh()
    (files.folder / "hooks.json").write_text(text)

    with structlog.testing.capture_logs() as logs:
        await files.bundles.refresh()

    assert files.runner.names == ("hooks.json::a rule",)
    assert [each["entry"] for each in logs if each["event"] == "hook_left_out"] == ["the whole file"]


async def test_rule_that_an_edit_broke_stays_what_it_was_and_the_others_change(files: Files) -> None:
    files.write("hooks.json", rule(name="guard", when_regex="secret", reject_reason="no"), rule(name="x", append="1"))
    await files.bundles.refresh()
    files.write("hooks.json", rule(name="guard", when_regex="secret(", reject_reason="no"), rule(name="y", append="1"))

    await files.bundles.refresh()

    assert files.runner.names == ("hooks.json::guard", "hooks.json::y")
    assert await files.runner.inbound(InboundEvent(ANN, "telegram", "a secret", "t1")) == Stopped("no")


async def test_link_out_of_the_workspace_is_not_followed(files: Files, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps({"rules": [rule(append="1")]}))
    (files.folder / "hooks.json").symlink_to(outside)

    await files.bundles.refresh()

    assert files.runner.names == ()
