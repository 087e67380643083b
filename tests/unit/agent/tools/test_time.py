from __future__ import annotations

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.builtin.time import TimeArguments, TimeTool, read_time, read_zone
from tests.support.fake_clock import FakeClock
from tests.support.tool_context import make_context

CLOCK = FakeClock(datetime(2026, 3, 2, 12, 0, tzinfo=UTC))


async def ask(zone: str = "UTC", **arguments: object) -> dict[str, object]:
    output = await TimeTool(CLOCK).run(TimeArguments.model_validate(arguments), make_context(zone=zone))
    assert not output.is_error, output.text
    answer = json.loads(output.text)
    assert isinstance(answer, dict)
    return answer


async def refused(**arguments: object) -> str:
    output = await TimeTool(CLOCK).run(TimeArguments.model_validate(arguments), make_context())
    assert output.is_error
    return output.text


async def test_now_is_told_in_the_persons_zone_or_the_one_asked_for() -> None:
    assert (await ask("Europe/Berlin", operation="now"))["iso"] == "2026-03-02T13:00:00+01:00"
    assert (await ask(operation="now", timezone="Asia/Tokyo"))["iso"] == "2026-03-02T21:00:00+09:00"


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-15T10:30:00Z",
        "2024-01-15T11:30:00+01:00",
        "2024-01-15 10:30",
        "1705314600",
        "1705314600000",
        "Mon, 15 Jan 2024 10:30:00 GMT",
    ],
)
async def test_times_are_read_in_their_usual_forms(text: str) -> None:
    assert (await ask(operation="parse", input=text))["utc"] == "2024-01-15T10:30:00Z"


async def test_a_time_is_moved_from_one_zone_to_another() -> None:
    answer = await ask(
        operation="convert", timestamp="2024-07-01 12:00", from_timezone="Europe/Berlin", to_timezone="America/New_York"
    )

    assert answer["iso"] == "2024-07-01T06:00:00-04:00"


async def test_a_time_is_formatted() -> None:
    answer = await ask(operation="format", timestamp="2024-07-01T12:00:00Z", format_string="%d.%m.%Y")

    assert answer == {"formatted": "01.07.2024"}


async def test_two_times_are_subtracted() -> None:
    answer = await ask(operation="diff", timestamp="2024-01-15T10:30:00Z", timestamp2="2024-01-16T14:45:00Z")

    assert answer == {"seconds": 101_700.0, "human": "1d 4h 15m 0s"}
    assert (await ask(operation="diff", timestamp="2026-03-02T12:00:05Z"))["human"] == "-0d 0h 0m 5s"


async def test_what_is_no_time_or_zone_is_an_error_that_shows_the_form() -> None:
    assert "2026-01-31T18:00:00" in await refused(operation="parse", timestamp="tomorrow-ish")
    for name in ("Mars/Base", "../../etc/passwd", "/etc/localtime", ""):
        with pytest.raises(ValueError, match="IANA"):
            read_zone(name)
    assert "timestamp" in await refused(operation="diff")
    assert await refused(operation="convert", timestamp="0001-01-01", to_timezone="America/New_York")


@given(st.text(max_size=40) | st.from_regex(r"[0-9TZ:+. -]{1,30}", fullmatch=True))
def test_reading_a_time_gives_an_aware_time_or_a_value_error(text: str) -> None:
    try:
        moment = read_time(text, ZoneInfo("UTC"))
    except ValueError:
        return
    assert moment.tzinfo is not None
