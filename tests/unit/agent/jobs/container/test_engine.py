"""The command lines of podman and docker, and which backend is taken: the commands are recorded, not run."""

from __future__ import annotations

import csv
import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from agent.jobs.container.choose import ContainerSettings, choose_container, judge
from agent.jobs.container.engine import (
    RUNC,
    EngineHost,
    Image,
    environment,
    label_of,
    make_skeleton,
    mount,
    name_of,
    run_arguments,
)
from agent.jobs.container.host import Bind, ContainerLimits, Launch, RefusingHost, worker_program

GOOD = {"uid": 62000, "writes": True, "writes_elsewhere": [], "interfaces": [], "sees": []}
MARK = "0123456789ab:"
LABEL = f"{MARK}00000007-0000-0000-0000-000000000000"
PROGRAM = worker_program(is_own_system=True)


def launch(folder: str = "/home/bot/workspace/projects/farm") -> Launch:
    return Launch(LABEL, Path(folder), 62_001, Path("/tmp/door"), word=b"the-token\n")


def arguments(name: str = "podman", image: Image = Image(root=Path("/root-folder"), is_own_system=True)) -> list[str]:  # noqa: B008 - frozen
    return list(run_arguments(EngineHost(name, f"/usr/bin/{name}", image, PROGRAM), launch()))


def following(words: list[str], name: str) -> list[str]:
    return [words[index + 1] for index, word in enumerate(words) if word == name]


@pytest.mark.parametrize("name", ["podman", "docker"])
def test_a_container_has_no_network_no_rights_and_limits(name: str) -> None:
    words = arguments(name, Image(name="python:3.11"))
    assert following(words, "--network") == ["none"]
    assert following(words, "--cap-drop") == ["all"]
    assert following(words, "--security-opt") == ["no-new-privileges"]
    assert "--read-only" in words
    assert following(words, "--user") == [f"62001:{62_001 if os.geteuid() == 0 else os.getegid()}"]
    assert following(words, "--memory") == following(words, "--memory-swap") == [str(1024**3)]
    assert following(words, "--pids-limit") == ["128"]
    assert following(words, "--label") == [f"optimclaw.job={LABEL}"]
    assert following(words, "--pull") == ["never"]
    assert words.index("python:3.11") < words.index("-m")
    assert not {"--privileged", "--publish", "--volume", "--device"} & set(words)


def test_podman_hands_no_proxy_of_the_machine_on_and_ends_by_itself() -> None:
    words = arguments("podman")
    assert "--http-proxy=false" in words
    assert following(words, "--timeout") == ["660"]
    assert following(words, "--rootfs") == ["/root-folder"]


def test_docker_is_given_none_of_podmans_own_options() -> None:
    words = arguments("docker", Image(name="python:3.11"))
    assert not any(word.startswith(("--http-proxy", "--timeout", "--userns", "--rootfs")) for word in words)


def test_one_folder_can_be_written_and_the_checkout_around_our_packages_is_not_mounted() -> None:
    mounts = [next(csv.reader([each])) for each in following(arguments(), "--mount")]
    writable = [fields for fields in mounts if "readonly" not in fields]
    assert [fields[1:] for fields in writable] == [["src=/home/bot/workspace/projects/farm", "dst=/workspace"]]
    sources = {fields[1].removeprefix("src=") for fields in mounts}
    repository = str(Path(__file__).parents[5])
    assert repository not in sources
    assert {f"{repository}/{name}" for name in ("agent", "bot", "channels", "config")} <= sources


def test_the_token_is_in_no_argument_and_in_no_variable() -> None:
    assert not any("the-token" in word for word in arguments())
    assert not any("the-token" in value for value in environment().values())
    assert "the-token" not in repr(launch())


def test_keys_of_the_bot_do_not_reach_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:password@proxy")
    assert not {"canary", "http://user:password@proxy"} & set(environment().values())


def test_a_folder_with_commas_and_quotes_is_one_field() -> None:
    text = mount(Bind(Path('/w/a,readonly,"b"'), "/workspace", is_writable=True))
    assert next(csv.reader([text])) == ["type=bind", 'src=/w/a,readonly,"b"', "dst=/workspace"]


def test_names_and_labels_lead_to_each_other() -> None:
    assert label_of(name_of(LABEL)) == LABEL
    assert label_of("somebody-elses") == ""


def test_skeleton_can_be_made_twice(tmp_path: Path) -> None:
    make_skeleton(tmp_path / "root")
    make_skeleton(tmp_path / "root")
    assert (tmp_path / "root" / "workspace").is_dir()
    assert (tmp_path / "root" / "bin").is_symlink() == Path("/bin").is_symlink()


# -- which one ---------------------------------------------------------------------------------------------------------
class Machine:
    """Commands that write down how they are called and answer as they are told."""

    def __init__(self, folder: Path, **answers: str) -> None:
        self.folder = folder
        for name, answer in answers.items():
            script = folder / name
            script.write_text(f'#!/bin/sh\necho "$@" >> {folder}/{name}.calls\n{answer}\n')
            script.chmod(0o755)

    def find(self, name: str) -> str | None:
        path = self.folder / name
        return str(path) if path.exists() else None

    def calls(self, name: str) -> list[str]:
        path = self.folder / f"{name}.calls"
        return path.read_text().splitlines() if path.exists() else []


def settings(home: Path, backend: str = "auto", image: str = "") -> ContainerSettings:
    return ContainerSettings(backend, image, None, home / "root")


async def test_podman_comes_before_docker(tmp_path: Path) -> None:
    machine = Machine(tmp_path, podman=f"echo '{json.dumps(GOOD)}'", docker=f"echo '{json.dumps(GOOD)}'")
    host = await choose_container(settings(tmp_path, image="python"), MARK, machine.find)
    assert host.name == "podman"
    assert machine.calls("docker") == []


async def test_a_podman_that_needs_another_runtime_is_given_it(tmp_path: Path) -> None:
    good = f"case \"$*\" in *cgroupfs*) echo '{json.dumps(GOOD)}';; *) echo crun: unknown version >&2; exit 126;; esac"
    machine = Machine(tmp_path, podman=good, runc="exit 0")
    host = await choose_container(settings(tmp_path), MARK, machine.find)
    assert isinstance(host, EngineHost)
    assert host.options == RUNC
    assert machine.calls("podman")[-1].startswith("--runtime runc --cgroup-manager cgroupfs rm --force")


async def test_docker_is_taken_where_podman_does_not_work_and_there_is_an_image(tmp_path: Path) -> None:
    machine = Machine(tmp_path, podman="exit 125", docker=f"echo '{json.dumps(GOOD)}'")
    host = await choose_container(settings(tmp_path, image="python:3.11"), MARK, machine.find)
    assert host.name == "docker"
    assert "python:3.11" in machine.calls("docker")[0]


async def test_one_that_does_not_hold_is_not_taken_and_the_reason_is_said(tmp_path: Path) -> None:
    bad = json.dumps({**GOOD, "interfaces": ["eth0"]})
    machine = Machine(tmp_path, podman=f"echo '{bad}'")
    host = await choose_container(settings(tmp_path, "podman"), MARK, machine.find)
    assert isinstance(host, RefusingHost)
    assert "it has a network" in host.reason


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("auto", "neither podman nor docker nor bubblewrap"),
        ("podman", "podman is not installed"),
        ("docker", "docker is not installed"),
        ("bubblewrap", "bubblewrap is not installed"),
        ("off", "SANDBOX_CONTAINER=off"),
    ],
)
async def test_a_machine_without_any_says_so(tmp_path: Path, backend: str, said: str) -> None:
    host = await choose_container(settings(tmp_path, backend), MARK, Machine(tmp_path).find)
    assert isinstance(host, RefusingHost)
    assert said in host.reason


async def test_orphans_are_those_of_this_home_that_no_running_job_has(tmp_path: Path) -> None:
    mine, running = f"{MARK}1-2", f"{MARK}3-4"
    names = "\\n".join([name_of(mine), name_of(running), "optimclaw-ba9876543210-5-6", "database"])
    machine = Machine(tmp_path, podman=f'test "$1" != ps || printf "{names}\\n"')
    host = EngineHost("podman", str(tmp_path / "podman"), Image(root=tmp_path), PROGRAM)
    assert await host.reap(MARK, {running}) == [mine]
    assert machine.calls("podman")[1:] == [f"rm --force {name_of(mine)}"]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, None),
        ({"uid": 0}, "runs as root"),
        ({"writes": False}, "cannot write"),
        ({"interfaces": ["eth0"]}, "network"),
        ({"sees": ["/etc/shadow"]}, "files of the machine"),
        ({"writes_elsewhere": ["/usr"]}, "files of the machine"),
    ],
)
def test_the_self_test_is_judged(changed: dict[str, object], fault: str | None) -> None:
    found = judge(0, f"some noise\n{json.dumps({**GOOD, **changed})}\n")
    assert found is None if fault is None else fault in (found or "")


@pytest.mark.parametrize("output", ["", "no json", "{", "[]", "{}" * 2])
def test_a_self_test_that_says_nothing_is_a_fault(output: str) -> None:
    assert judge(125, output) is not None


def test_limits_end_later_than_the_worker_ends_itself() -> None:
    assert ContainerLimits().wall > timedelta(seconds=600)
