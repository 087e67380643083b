from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from agent.model.tool_call import ToolCall, ToolOutput
from agent.store.errors import StoreUnavailable
from agent.tools.base import Approval, Effect, PathScope, RateLimit, ToolContext, ToolSpec
from agent.tools.execute import Prepared, Refusal, ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import LocalToolsFor, ToolRegistry
from agent.tools.schema import Arguments
from agent.workspace.scope import PersonScope
from tests.support.fake_clock import FakeClock
from tests.support.tool_context import PlainSafety, make_context

ANN = PersonScope("telegram", "5")


class ProbeArguments(Arguments):
    count: int = 1
    secret: str = ""


def assess(arguments: ProbeArguments) -> Approval:
    return Approval.ALWAYS if arguments.count > 5 else Approval.NEVER


@dataclass
class Probe:
    """A tool that does what a test says."""

    output: str = "done"
    fault: BaseException | None = None
    hangs: bool = False
    local: bool = False
    rate: RateLimit | None = None
    ran: list[int] = field(default_factory=list)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            "probe",
            "A probe.",
            ProbeArguments,
            Effect.OUTSIDE,
            assess=assess,
            timeout=timedelta(seconds=0.01 if self.hangs else 60),
            rate=self.rate,
            local=self.local,
            sensitive=frozenset({"secret"}),
        )

    def scope(self, arguments: ProbeArguments) -> PathScope | None:
        return None

    async def run(self, arguments: ProbeArguments, context: ToolContext) -> ToolOutput:
        self.ran.append(arguments.count)
        if self.hangs:
            await asyncio.Event().wait()
        if self.fault is not None:
            raise self.fault
        return ToolOutput(self.output)


@dataclass
class ListArchive:
    kept: list[str] = field(default_factory=list)
    is_down: bool = False

    async def keep(self, context: ToolContext, name: str, text: str) -> None:
        if self.is_down:
            raise StoreUnavailable("down")
        self.kept.append(text)


def make_executor(
    probe: Probe, archive: ListArchive | None = None, local_tools_for: LocalToolsFor = LocalToolsFor.OPERATOR
) -> ToolExecutor:
    return ToolExecutor(
        ToolRegistry([probe]), PlainSafety(), RateWindows(FakeClock()), archive, local_tools_for, output_limit_bytes=100
    )


def call(**arguments: object) -> ToolCall:
    return ToolCall("c1", "probe", arguments)


async def prepared(executor: ToolExecutor, asked: ToolCall, context: ToolContext | None = None) -> Prepared:
    result = await executor.prepare(asked, context or make_context())
    assert isinstance(result, Prepared), result
    return result


async def refused(executor: ToolExecutor, asked: ToolCall, context: ToolContext | None = None) -> str:
    result = await executor.prepare(asked, context or make_context())
    assert isinstance(result, Refusal)
    assert result.output.is_error
    return result.output.text


async def test_a_call_is_coerced_validated_and_run() -> None:
    probe = Probe()
    executor = make_executor(probe)

    output = await executor.run(await prepared(executor, call(count="5")), make_context())

    assert output == ToolOutput("done")
    assert probe.ran == [5]


async def test_an_unknown_tool_is_refused_with_similar_names() -> None:
    text = await refused(make_executor(Probe()), ToolCall("c", "prob", {}))

    assert "not found" in text
    assert "probe" in text


async def test_malformed_arguments_are_never_run_as_empty_ones() -> None:
    assert "JSON" in await refused(make_executor(Probe()), ToolCall("c", "probe", {}, malformed='{"count": 1'))


async def test_wrong_arguments_are_explained() -> None:
    assert "'pace' is unknown" in await refused(make_executor(Probe()), call(pace=1))


async def test_arguments_that_safety_refuses_are_not_run() -> None:
    assert await refused(make_executor(Probe()), call(secret="forbidden")) == "refused by safety"


@pytest.mark.parametrize(
    ("local_tools_for", "is_operator", "runs"),
    [
        (LocalToolsFor.OPERATOR, True, True),
        (LocalToolsFor.OPERATOR, False, False),
        (LocalToolsFor.EVERYONE, False, True),
    ],
)
async def test_a_local_tool_called_by_name_is_refused_to_others(
    local_tools_for: LocalToolsFor, is_operator: bool, runs: bool
) -> None:
    executor = make_executor(Probe(local=True), local_tools_for=local_tools_for)

    result = await executor.prepare(call(), make_context(ANN, is_operator=is_operator))

    assert isinstance(result, Prepared) is runs
    if isinstance(result, Refusal):
        assert "operator" in result.output.text


async def test_the_approval_is_computed_from_the_real_arguments_and_secrets_are_not_shown() -> None:
    executor = make_executor(Probe())

    mild, wild = await prepared(executor, call(count=1)), await prepared(executor, call(count="9", secret="s3cret"))

    assert (mild.approval, wild.approval) == (Approval.NEVER, Approval.ALWAYS)
    assert wild.display == {"count": "9", "secret": "[REDACTED]"}


async def test_a_fault_of_a_tool_is_an_error_without_the_faults_text() -> None:
    executor = make_executor(Probe(fault=RuntimeError("/home/ann/secret path")))

    output = await executor.run(await prepared(executor, call()), make_context())

    assert output.is_error
    assert "RuntimeError" in output.text
    assert "/home" not in output.text


async def test_half_a_character_in_an_output_is_replaced_before_it_is_kept() -> None:
    archive = ListArchive()
    executor = make_executor(Probe("half a character: \ud83d" + "x" * 200), archive=archive)

    output = await executor.run(await prepared(executor, call()), make_context(ANN))

    assert output.text.startswith("half a character: \ufffdx")
    assert archive.kept == [output.text]


async def test_a_tool_that_hangs_is_stopped_and_the_limit_is_named() -> None:
    executor = make_executor(Probe(hangs=True))

    output = await executor.run(await prepared(executor, call()), make_context())

    assert output.is_error
    assert "0.01 s" in output.text


async def test_a_tools_own_time_out_is_not_taken_for_the_limit() -> None:
    executor = make_executor(Probe(fault=TimeoutError()))

    output = await executor.run(await prepared(executor, call()), make_context())

    assert output.is_error
    assert "60" not in output.text


async def test_cancelling_a_turn_cancels_its_tool() -> None:
    executor = make_executor(Probe(fault=asyncio.CancelledError()))

    with pytest.raises(asyncio.CancelledError):
        await executor.run(await prepared(executor, call()), make_context())


async def test_calls_beyond_the_rate_are_not_run() -> None:
    probe = Probe(rate=RateLimit(per_minute=1, per_hour=10))
    executor = make_executor(probe)

    outputs = [await executor.run(await prepared(executor, call()), make_context()) for _ in range(2)]

    assert [output.is_error for output in outputs] == [False, True]
    assert "60 s" in outputs[1].text
    assert probe.ran == [1]


async def test_an_output_that_will_be_cut_is_archived_whole_and_a_short_one_is_not() -> None:
    archive = ListArchive()
    for text in ("ä" * 51, "a" * 101, "ä" * 50):
        executor = make_executor(Probe(output=text), archive)
        await executor.run(await prepared(executor, call()), make_context())

    assert archive.kept == ["ä" * 51, "a" * 101]


async def test_an_archive_that_is_down_does_not_undo_what_the_tool_did() -> None:
    executor = make_executor(Probe(output="x" * 200), ListArchive(is_down=True))

    assert (await executor.run(await prepared(executor, call()), make_context())).text == "x" * 200


def test_results_and_errors_alike_pass_the_safety_layer() -> None:
    """Invariant 7."""
    executor = make_executor(Probe())

    shown = [executor.present(call(), output) for output in (ToolOutput("hi"), ToolOutput("no", True), ToolOutput(""))]

    assert [result.text for result in shown] == [
        "<probe>clean(hi)</probe>",
        "<probe failed>clean(no)</probe>",
        "<probe>clean(OK)</probe>",
    ]
    assert [result.is_error for result in shown] == [False, True, False]
    assert {(result.call_id, result.name) for result in shown} == {("c1", "probe")}
