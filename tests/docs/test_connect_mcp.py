"""The page on MCP servers shows a file that works and numbers that hold."""

from __future__ import annotations

import json

from agent.mcp.config import Endpoint, OfferedTo, Program, read_config
from agent.mcp.connection import LARGEST_EVENT, MOST_TOOLS, Limits
from agent.mcp.http import LARGEST_ANSWER
from agent.mcp.hub import PROMPT_BUDGET
from agent.mcp.server import FIRST_WAIT, LONGEST_WAIT
from agent.mcp.stdio import LONGEST_LINE
from agent.mcp.tool import RATE
from agent.mcp.words import LONGEST_DESCRIPTION
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "connect-mcp.md"
TEXT = " ".join(PAGE.read_text("utf-8").split())


def test_printed_file_is_read_without_a_fault() -> None:
    configured = read_config(json.loads(blocks(PAGE)[0].text))

    files, tracker, wiki = configured.servers
    assert configured.faults == ()
    assert isinstance(files.place, Program)
    assert isinstance(tracker.place, Endpoint)
    assert (files.offered_to, tracker.offered_to) == (OfferedTo.OPERATOR, OfferedTo.EVERYONE)
    assert (wiki.is_enabled, wiki.token_name) == (False, "wiki")


def test_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"at most {LONGEST_DESCRIPTION:,} characters" in TEXT
    assert f"more than {PROMPT_BUDGET:,} bytes" in TEXT
    assert f"more than {MOST_TOOLS} tools, or answers of more than {LARGEST_ANSWER // 2**20} MiB" in TEXT
    assert LARGEST_EVENT == LONGEST_LINE == LARGEST_ANSWER
    assert f"{RATE.per_minute} times a minute and {RATE.per_hour} times an hour" in TEXT
    assert (
        f"after {FIRST_WAIT.seconds} seconds, then after growing waits of at most {LONGEST_WAIT.seconds // 60}" in TEXT
    )
    assert f"may take {Limits().call.seconds // 60} minutes" in TEXT
