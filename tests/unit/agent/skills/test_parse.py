from __future__ import annotations

import hashlib
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.skills.errors import SkillInvalid
from agent.skills.parse import LARGEST_FILE, parse_skill
from agent.skills.patterns import compile_pattern
from agent.skills.skill import NAME, Requires, Skill, Trust
from tests.support.skills import make_skill, skill_text


def parsed(text: str | bytes) -> Skill:
    return parse_skill(text, Trust.TRUSTED)


def test_all_parts_of_a_file_are_read() -> None:
    skill = parse_skill(
        "---\nname: git.help_2-x\nversion: 1.10\ndescription: Helps with git\nlicense: MIT\nactivation:\n"
        "  keywords: [Commit, rebase]\n  exclude_keywords: [gitlab]\n  tags: [vcs]\n  patterns: ['fix(es)? #\\d+']\n"
        "  max_context_tokens: 700\nrequires:\n  bins: [git]\n  env: [GIT_TOKEN]\n  config: [AGENT_NAME]\n---\n\n"
        "Do it.\n",
        Trust.INSTALLED,
        "git",
    )

    assert (skill.name, skill.version, skill.description) == ("git.help_2-x", "1.10", "Helps with git")
    assert skill.activation.keywords == ("commit", "rebase")
    assert skill.activation.exclude_keywords == ("gitlab",)
    assert skill.activation.tags == ("vcs",)
    assert len(skill.activation.patterns) == 1
    assert skill.activation.max_context_tokens == 700
    assert skill.requires == Requires(("git",), ("GIT_TOKEN",), ("AGENT_NAME",))
    assert (skill.body, skill.trust, skill.folder, skill.warnings) == ("Do it.", Trust.INSTALLED, "git", ())
    assert skill.sha256 == hashlib.sha256(b"Do it.").hexdigest()


def test_a_file_with_a_name_and_a_body_is_enough() -> None:
    skill = parsed("---\nname: a\n---\nbody")

    assert (skill.version, skill.description, skill.activation.max_context_tokens) == ("0.0.0", "", 2000)


def test_byte_order_mark_and_line_ends_of_windows_make_no_difference() -> None:
    plain = "---\nname: a\n---\none\ntwo\n"

    assert parsed(b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode()) == parsed(plain)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "begin"),
        ("name: a\n---\nbody", "begin"),
        ("\n---\nname: a\n---\nbody", "begin"),
        ("---\nname: a\nbody", "closed"),
        ("---\nname: a\n---\n \n\t\n", "no instructions"),
        ("---\n---\nbody", "key: value"),
        ("---\n- name\n---\nbody", "key: value"),
        ("---\nname: [\n---\nbody", "YAML"),
        ("---\nversion: 1\n---\nbody", "`name`"),
        ("---\nname: [a]\n---\nbody", "`name`"),
        ("---\nname: a\nactivation: yes\n---\nbody", "`activation`"),
        ("---\nname: a\nactivation:\n  keywords: word\n---\nbody", "`keywords`"),
        ("---\nname: a\nactivation:\n  keywords: [{a: b}]\n---\nbody", "`keywords`"),
        ("---\nname: a\nactivation:\n  max_context_tokens: -1\n---\nbody", "`max_context_tokens`"),
        ("---\nname: a\nactivation:\n  max_context_tokens: many\n---\nbody", "`max_context_tokens`"),
        ("---\nname: a\nrequires:\n  bins: [../sh]\n---\nbody", "requires.bins"),
        ("---\nname: a\nx: &y 1\n---\nbody", "anchors"),
        ("---\nname: a\nx: [1, &y [2], *y]\n---\nbody", "anchors"),
        ("---\nname: a\nx: " + "[" * 9 + "]" * 9 + "\n---\nbody", "deep"),
        ("---\nname: a\nx: [" + "y," * 9000 + "]\n---\nbody", "too much"),
        ("---\nname: a\n---\nbo\0dy", "control"),
        ("---\nname: a\n---\n" + "x" * LARGEST_FILE, "limit"),
        ("---\nname: \ud800\n---\nbody", "UTF-8"),
        (b"---\nname: a\n---\n\xff", "UTF-8"),
    ],
)
def test_what_is_no_skill_is_refused_with_a_reason(text: str | bytes, reason: str) -> None:
    with pytest.raises(SkillInvalid, match=reason):
        parsed(text)


@pytest.mark.parametrize("name", ["", ".a", "-a", "a/b", "../a", "a b", "é", "a" * 65, "a\u0661", "a\n"])
def test_a_name_that_could_be_a_path_or_no_name_is_refused(name: str) -> None:
    with pytest.raises(SkillInvalid, match="`name`"):
        parsed(skill_text(f'"{name}"' if "\n" not in name else '"a\\n/b"'))


def test_words_that_are_too_many_or_too_short_are_left_out() -> None:
    many = ", ".join(f"word{number}" for number in range(30))

    skill = make_skill("a", f"keywords: [go, Straße, straße, {many}]", f"tags: [ab, {many}]", f"patterns: [{many}]")

    assert len(skill.activation.keywords) == 20
    assert skill.activation.keywords[:2] == ("straße", "word0")
    assert len(skill.activation.tags) == 10
    assert len(skill.activation.patterns) == 5


@pytest.mark.parametrize("pattern", ["(", "(a)\\1", "(?=a)b", "((a{100}){100}){100}", "(x?){900}", "x" * 501])
def test_a_pattern_that_is_bad_or_too_large_is_left_out_with_a_warning(pattern: str) -> None:
    skill = make_skill("a", f"patterns: ['{pattern}', 'good']")

    assert len(skill.activation.patterns) == 1
    assert "pattern 1" in skill.warnings[0]


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+b", "(.*a){20}b", "(x?){200}y", "([a-z]{0,50}){0,2}y"])
def test_a_pattern_that_would_hold_a_backtracking_engine_is_done_in_time(pattern: str) -> None:
    compiled = compile_pattern(pattern)
    assert compiled is not None

    began = time.process_time()
    compiled.search(b"a" * 4000 + b"!")

    assert time.process_time() - began < 2


def test_cost_is_what_is_declared_unless_the_text_is_more_than_twice_as_long() -> None:
    assert make_skill("a", "max_context_tokens: 100", body="x" * 800).cost_tokens == 100
    assert make_skill("a", "max_context_tokens: 100", body="x" * 804).cost_tokens == 201
    assert make_skill("a", "max_context_tokens: 0", body="x").cost_tokens == 1


@given(
    st.binary(max_size=300)
    | st.text(max_size=200).map(lambda head: f"---\n{head}\n---\nbody".encode(errors="surrogatepass"))
    | st.text(alphabet="ab:-[]{}?&*!|>\"',#% \n", max_size=60).map(
        lambda head: f"---\nname: a\n{head}\n---\nb".encode()
    )
)
def test_any_bytes_give_a_skill_or_a_reason(data: bytes) -> None:
    with suppress(SkillInvalid):
        skill = parsed(data)

        assert NAME.fullmatch(skill.name)
        assert skill.body.strip()
