"""Every page is true of the program as far as a machine can tell: links, commands, settings, files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from bot.cli import commands as cli
from config.options import catalogue
from tests.docs.pages import PAGES, ROOT, blocks, code_words, links, name_of
from tests.support.settings import EXTENSIONS

MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = frozenset(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
SHELLS = frozenset({"sh", "bash", "console"})
CHANNELS = tuple(name.upper() for name in EXTENSIONS.channels)
# Words in capitals that are no settings of ours: what pages name from the code, from make and from the platforms.
NO_SETTINGS = frozenset({"PROVIDER_SETTINGS", "CHANNEL_SETTINGS", "UNLESS_ALWAYS"})
# The settings of the channel and the provider that two how-to pages add.
ADDED_BY_PAGES = re.compile(r"(?:MATRIX|OLLAMA)_[A-Z_]+")

CAPITALS = re.compile(r"(?:<CHANNEL>|\b[A-Z][A-Z0-9]*)(?:_[A-Z0-9]+)+(?![\w*])")
SOURCE = re.compile(r"(?:agent|bot|channels|config|tests|bench|docs)/[\w./]+")

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@every_page
def test_relative_links_lead_to_files(page: Path) -> None:
    local = [link.partition("#")[0] for link in links(page) if not re.match(r"[a-z]+:", link)]

    assert [link for link in local if link and not (page.parent / link).exists()] == []


@every_page
def test_anchors_of_links_are_headings(page: Path) -> None:
    anchored = [link.partition("#") for link in links(page) if "#" in link and not re.match(r"[a-z]+:", link)]

    assert [f"{path}#{anchor}" for path, _, anchor in anchored if anchor not in _anchors(page, path)] == []


@every_page
def test_commands_in_shell_blocks_exist(page: Path) -> None:
    lines = [line for block in blocks(page) if block.language in SHELLS for line in block.text.splitlines()]

    assert [line for line in lines if (fault := _fault(line)) is not None and fault] == []


@every_page
def test_commands_named_in_the_text_exist(page: Path) -> None:
    calls = [shlex.split(word) for word in code_words(page) if re.match(r"(?:optimclaw|make) ", word)]

    assert [call for call in calls if _fault_of(call, is_whole=False) is not None] == []


@every_page
def test_settings_named_by_a_page_exist(page: Path) -> None:
    known = catalogue(EXTENSIONS)
    names = set(known.by_env) | {f"{name}_FILE" for name, option in known.by_env.items() if option.is_secret}
    names |= {"OPTIMCLAW_HOME", "TEST_DATABASE_URL"} | NO_SETTINGS
    text = "\n".join([*code_words(page), *(block.text for block in blocks(page) if block.language != "python")])
    said = {
        name
        for word in re.findall(r"(?:<CHANNEL>|\b[A-Z][A-Z0-9]*)(?:_[A-Z0-9]+)+(?![\w*])", text)
        for name in _spelt(word)
    }

    assert sorted(name for name in said - names if not ADDED_BY_PAGES.fullmatch(name)) == []


@every_page
def test_files_of_the_source_named_by_a_page_exist(page: Path) -> None:
    paths = [
        word
        for word in code_words(page)
        if re.fullmatch(r"(?:agent|bot|channels|config|tests|bench|docs)/[\w./]+", word)
    ]
    made = {block.split("`")[1] for block in re.findall(r"^Make `[^`]+`", page.read_text("utf-8"), re.MULTILINE)}

    assert [path for path in paths if path not in made and not (ROOT / path).exists()] == []


def test_no_page_names_a_machine() -> None:
    shown = re.compile(r"(?<![\w.])/(?:root|home|Users|work)/")

    assert [name_of(page) for page in PAGES if shown.search(page.read_text("utf-8"))] == []


def test_pages_are_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        waiting += [
            (page.parent / link.partition("#")[0]).resolve() for link in links(page) if not re.match(r"[a-z]+:|#", link)
        ]

    assert [name_of(page) for page in PAGES if page not in seen] == []


def test_unknown_commands_are_noticed() -> None:
    assert _fault("optimclaw frobnicate") == "no command frobnicate"
    assert _fault("optimclaw pairing frobnicate telegram") == "no command frobnicate"
    assert _fault("OPTIMCLAW_HOME=/tmp/x optimclaw chat --loud") == "no option --loud"
    assert _fault("optimclaw pairing approve telegram") == "1 words for 2 arguments"
    assert _fault("git pull && make everything") == "no target everything"
    assert _fault("$ .venv/bin/optimclaw pairing approve telegram ABCD2345") is None
    assert _fault("make run") is None


def _anchors(page: Path, path: str) -> set[str]:
    target = page.parent / path if path else page
    headings = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _spelt(word: str) -> list[str]:
    return [word.replace("<CHANNEL>", channel) for channel in CHANNELS] if "<CHANNEL>" in word else [word]


def _fault(line: str) -> str | None:
    """What is wrong with the commands of ours in a line of shell; None if nothing is."""
    words = shlex.split(line.removeprefix("$ "), comments=True)
    parts: list[list[str]] = [[]]
    for word in words:
        if word in {"&&", "||", "|", ";", "&"}:
            parts.append([])
        else:
            parts[-1].append(word)
    faults = [_fault_of(part) for part in parts]
    return next((fault for fault in faults if fault is not None), None)


def _fault_of(words: list[str], *, is_whole: bool = True) -> str | None:
    while words and re.match(r"[A-Z_]+=|sudo$|exec$", words[0]):
        words = words[1:]
    match words:
        case ["make", *targets]:
            unknown = [target for target in targets if target not in TARGETS and "=" not in target]
            return f"no target {unknown[0]}" if unknown else None
        case ["python" | "python3" | ".venv/bin/python", "-m", "bot", *rest]:
            return _fault_of_call(cli, rest, is_whole=is_whole)
        case [program, *rest] if program.rsplit("/", 1)[-1] == "optimclaw":
            return _fault_of_call(cli, rest, is_whole=is_whole)
        case _:
            return None


def _fault_of_call(command: click.Command, words: list[str], *, is_whole: bool) -> str | None:
    options = {"-h", "--help"} | {opt for each in command.params for opt in each.opts if isinstance(each, click.Option)}
    plain: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in {">", ">>", "2>", "<"}:
            break
        if not word.startswith("-"):
            if isinstance(command, click.Group):
                inner = command.commands.get(word)
                return f"no command {word}" if inner is None else _fault_of_call(inner, list(rest), is_whole=is_whole)
            plain.append(word)
        elif word not in options:
            return f"no option {word}"
        elif any(word in each.opts and isinstance(each, click.Option) and not each.is_flag for each in command.params):
            next(rest, None)
    wanted = sum(isinstance(each, click.Argument) for each in command.params)
    return f"{len(plain)} words for {wanted} arguments" if is_whole and len(plain) != wanted else None
