"""Archives, YAML, JSON and expressions of strangers: refused or read as text, in little time, and nothing is run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.hooks.bundles import read_bundle
from agent.hooks.patterns import BadPattern, compile_substitution
from agent.llm.wire.calls import parse_call, wire_arguments
from agent.model.tool_call import JsonValue, ToolCall
from agent.safety.layer import SafetyLayer
from agent.skills.archive import is_archive, skill_file_in
from agent.skills.errors import SkillError, SkillInvalid
from agent.skills.folders import Means, SkillFolder
from agent.skills.install import SkillInstaller
from agent.skills.parse import LARGEST_FILE, parse_skill
from agent.skills.patterns import compile_pattern
from agent.skills.shelf import SkillShelf
from agent.skills.skill import Trust
from tests.security.corpus.bundles import ARCHIVES, EXPRESSIONS, GOOD, HARMLESS_HEADS, HEADS, JSONS, packed
from tests.support.fake_clock import FakeClock

WORST = "a" * 50_000 + "!"


def installer(home: Path) -> SkillInstaller:
    always = Means(lambda name: True, lambda name: True, lambda name: True)
    return SkillInstaller(SkillShelf([SkillFolder(home / "installed", Trust.INSTALLED, "installed")], always))


@pytest.mark.parametrize("what", ARCHIVES)
async def test_archive_that_means_harm_is_refused_whole(what: str, tmp_path: Path) -> None:
    data = ARCHIVES[what]
    with pytest.raises(SkillError):
        await installer(tmp_path).install(data, "good")

    assert [entry for entry in tmp_path.rglob("*") if entry.is_file()] == []


async def test_good_archive_and_good_text_are_installed(tmp_path: Path) -> None:
    """What is refused above is refused for its fault."""
    await installer(tmp_path / "one").install(packed(("good/SKILL.md", GOOD.encode())), "good")
    await installer(tmp_path / "two").install(GOOD.encode(), "good")

    assert sorted(each.parent.parent.parent.name for each in tmp_path.rglob("SKILL.md")) == ["one", "two"]


@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_damaged_archive_is_refused_or_read_and_never_breaks(chance: random.Random, hits: int) -> None:
    data = bytearray(packed(("good/SKILL.md", GOOD.encode()), ("good/notes.txt", b"note")))
    for _ in range(hits):
        data[chance.randrange(4, len(data))] = chance.randrange(256)
    with suppress(SkillInvalid):
        assert len(skill_file_in(bytes(data))) <= LARGEST_FILE


@given(st.binary(max_size=300))
def test_any_bytes_are_no_archive_or_are_refused(tail: bytes) -> None:
    data = b"PK\x03\x04" + tail
    assert is_archive(data)
    with pytest.raises(SkillInvalid):
        skill_file_in(data)


@pytest.mark.parametrize("what", HEADS)
def test_front_matter_that_means_harm_is_refused(what: str, benchless: Callable[[], float]) -> None:
    with pytest.raises(SkillInvalid):
        parse_skill(f"---\n{HEADS[what]}\n---\nDo it.\n", Trust.INSTALLED)

    assert benchless() < 5


@pytest.mark.parametrize("what", HARMLESS_HEADS)
def test_tags_of_front_matter_run_nothing(what: str, tmp_path: Path) -> None:
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        skill = parse_skill(f"---\n{HARMLESS_HEADS[what]}\n---\nDo it.\n", Trust.INSTALLED)
        assert skill.name == "good"
    except SkillInvalid:
        pass
    finally:
        os.chdir(here)

    assert list(tmp_path.iterdir()) == []


@given(st.text(alphabet="abc:-[]{}&*!|>%@`'\"#, \n\t?~", max_size=200))
def test_any_front_matter_is_a_skill_or_refused(head: str) -> None:
    with suppress(SkillInvalid):
        assert parse_skill(f"---\n{head}\n---\nDo it.\n", Trust.INSTALLED).name


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression_of_a_skill_or_a_hook_is_refused_or_needs_no_time(
    expression: str, benchless: Callable[[], float]
) -> None:
    """Five seconds for what takes hundredths of one: an expression that backtracks would take years."""
    pattern = compile_pattern(expression)
    if pattern is not None:
        pattern.search(WORST.encode())
    try:
        substitution = compile_substitution(expression, "b")
    except BadPattern:
        substitution = None
    if substitution is not None:
        substitution.apply(WORST[:5_000])

    assert benchless() < 5


@pytest.mark.parametrize("what", JSONS)
def test_arguments_of_a_call_that_mean_harm_are_malformed_or_refused(what: str) -> None:
    safety = SafetyLayer()
    for raw in (JSONS[what], f'{{"value": {JSONS[what]}}}'):
        call = parse_call("1", "echo", raw)
        assert isinstance(call, ToolCall)
        if call.malformed is None:
            refused = safety.check_arguments("echo", call.arguments)
            shown = safety.redact_arguments(frozenset(), call.arguments)
            assert refused is not None or len(str(shown)) < 1_000_000
        assert wire_arguments(call) is not None


def nested(levels: int) -> JsonValue:
    value: JsonValue = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [17, 100, 100_000])
def test_arguments_nested_too_deeply_are_refused_and_shown_masked(levels: int) -> None:
    safety = SafetyLayer()
    arguments: Mapping[str, JsonValue] = {"body": nested(levels)}

    assert "too deeply" in (safety.check_arguments("http", arguments) or "")
    assert "REDACTED" in str(safety.redact_arguments(frozenset(), arguments))


@pytest.mark.parametrize("what", JSONS)
def test_file_of_hooks_with_anything_in_it_leaves_the_rest_alone(what: str) -> None:
    async def post(url: str, headers: Mapping[str, str], payload: Mapping[str, object]) -> int:
        raise AssertionError("asked")

    found = read_bundle("hooks.json", {"rules": [JSONS[what], {"name": JSONS[what]}], what: []}, post, FakeClock())

    assert found.hooks == ()
    assert found.faults
