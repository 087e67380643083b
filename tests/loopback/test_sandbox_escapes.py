"""Attempts to get out of the real sandbox, and to leave something behind in it for the bot."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from agent.tools.builtin.shell import ShellArguments
from agent.tools.sandbox import Finished, Limits, NotRun, SandboxRequest, TimedOut
from agent.workspace.scope import OperatorScope, PersonScope
from bot.sandboxed import shell_tool
from tests.support.sandboxes import bubblewrap, finish, needs_bubblewrap
from tests.support.tool_context import make_context

pytestmark = needs_bubblewrap

MEBIBYTE = 1024 * 1024
needs_python = pytest.mark.skipif(shutil.which("python3", path="/usr/bin") is None, reason="no /usr/bin/python3")


_CONNECT = """
import socket, sys
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path.replace("@", chr(0)))
        print("connected")
    except OSError:
        print("refused")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with all that a command must not see."""
    place = tmp_path / "home"
    (place / "workspace" / "users" / "telegram" / "7").mkdir(parents=True)
    (place / "workspace" / "users" / "telegram" / "7" / "MEMORY.md").write_text("canary of a person")
    (place / "config.toml").write_text("token = 'canary of the settings'")
    (place / "master.key").write_text("canary of the key")
    with sqlite3.connect(place / "optimclaw.db") as database:
        database.execute("create table canary (text)")
        database.execute("insert into canary values ('canary of the database')")
    return place


@pytest.fixture
def folder(home: Path) -> Path:
    return home / "workspace"


async def run(
    command: str, folder: Path, *, readonly_folders: tuple[Path, ...] = (), limits: Limits | None = None
) -> str:
    request = SandboxRequest(
        command,
        folder,
        hidden=(folder / "users", folder / "groups"),
        readonly_folders=readonly_folders,
        timeout=timedelta(seconds=60),
        limits=limits or Limits(),
    )
    return (await finish(bubblewrap(), request)).output


# -- reading


async def test_the_home_cannot_be_read_by_any_path(home: Path, folder: Path) -> None:
    names = ("config.toml", "master.key", "optimclaw.db", "workspace/users/telegram/7/MEMORY.md")
    paths = [f"{start}/{name}" for name in names for start in (home, "..", f"/proc/1/root{home}", "/proc/self/cwd/..")]
    command = " ".join(f"cat '{path}'; cp '{path}' taken 2>/dev/null;" for path in paths)

    output = await run(f"{command} ls -R / 2>/dev/null | grep -e config.toml -e master.key -e telegram", folder)

    assert "canary" not in output
    assert "telegram\n" not in output
    assert not (folder / "taken").exists()


async def test_the_bots_processes_are_not_there(folder: Path) -> None:
    command = (
        f"cat /proc/{os.getpid()}/environ /proc/{os.getpid()}/maps; kill -0 {os.getpid()}; "
        "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; cat $p/cmdline; done 2>/dev/null"
    )

    output = await run(command, folder)

    assert "canary" not in output
    assert "pytest" not in output
    assert "KEY" not in output


async def test_a_hard_link_to_a_file_of_the_home_cannot_be_made(home: Path, folder: Path) -> None:
    output = await run(f"ln '{home}/config.toml' a; ln /etc/passwd b; ln /usr/bin/env c; ls", folder)

    assert output.splitlines()[-2:] == ["groups", "users"]


@needs_python
async def test_sockets_of_the_machine_are_not_there(home: Path, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as nameless:
        server.bind(str(home / "s"))
        server.listen()
        nameless.bind("\0optimclaw-test-canary")
        nameless.listen()
        paths = f"'{home}/s' @optimclaw-test-canary /run/docker.sock /var/run/docker.sock"

        assert (await run(f"python3 -c '{_CONNECT}' {paths}", folder)).split() == ["refused"] * 4


# -- rights


async def test_devices_are_only_the_harmless_ones(folder: Path) -> None:
    output = await run("ls /dev; mknod disk b 8 0; mknod /tmp/mem c 1 1; mknod null c 1 3; ls", folder)

    devices = set(output.split("mknod")[0].split())
    assert devices <= {
        *("console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty"),
        *("urandom", "zero"),
    }
    assert output.splitlines()[-2:] == ["groups", "users"]


async def test_nothing_can_be_mounted_or_taken_away(folder: Path) -> None:
    (folder / "skills").mkdir()
    tricks = (
        "mount -t tmpfs none /usr; mount -o remount,rw /; mount --bind /tmp skills; umount users; umount skills; "
        "mount -o remount,rw,bind skills; umount -l users; mount -t proc proc /tmp; cat users/telegram/7/MEMORY.md; "
        "touch skills/x /usr/x"
    )
    command = f"{tricks}; unshare -Urm sh -c '{tricks}'; unshare -Urmpf sh -c '{tricks}'; ls -A users"

    output = await run(command, folder, readonly_folders=(folder / "skills",))

    assert "canary" not in output
    assert os.listdir(folder / "skills") == []
    assert os.listdir(folder / "users") == ["telegram"]


async def test_setuid_programs_give_no_rights(folder: Path) -> None:
    command = (
        "cp /usr/bin/id own; chmod 4755 own; ./own -u; su -c id </dev/null; setpriv --reuid=0 id; "
        "chown 0 own; grep NoNewPrivs /proc/self/status"
    )

    output = await run(command, folder)

    assert "uid=0" not in output
    assert output.splitlines()[0] != "0"
    assert output.splitlines()[-1].split() == ["NoNewPrivs:", "1"]


@needs_python
async def test_no_process_outside_can_be_traced(folder: Path) -> None:
    command = (
        "python3 -c 'import ctypes; libc = ctypes.CDLL(None); "
        f"print(libc.ptrace(16, {os.getpid()}, 0, 0), libc.ptrace(16, 1, 0, 0) if {int(os.geteuid() == 0)} else -1)'"
    )

    assert await run(command, folder) == "-1 -1\n"


@pytest.mark.parametrize(
    "place",
    [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/proc/sys/vm/drop_caches",
        "/sys/power/state",
        "/etc/passwd",
    ],
)
async def test_the_kernel_cannot_be_steered(folder: Path, place: str) -> None:
    assert "written" not in await run(f"echo x > {place} && echo written", folder)


# -- using up the machine


async def test_a_fork_bomb_ends_at_its_time_limit(folder: Path) -> None:
    bomb = "exec dash -c 'b() { b | b & }; b; sleep 60'"
    limits = replace(Limits(), processes=24)

    outcome = await bubblewrap().run(SandboxRequest(bomb, folder, timeout=timedelta(seconds=1), limits=limits))

    assert isinstance(outcome, TimedOut | Finished)
    assert len(outcome.output) <= limits.output_bytes + 100


@needs_python
async def test_a_process_that_wants_all_the_memory_is_stopped(folder: Path) -> None:
    limits = replace(Limits(), memory_bytes=64 * MEBIBYTE)

    output = await run("python3 -c 'x = bytearray(500_000_000); print(len(x))'", folder, limits=limits)

    assert "MemoryError" in output


async def test_endless_output_is_cut_and_ends_at_the_time_limit(folder: Path) -> None:
    outcome = await bubblewrap().run(SandboxRequest("yes", folder, timeout=timedelta(seconds=0.5)))

    assert isinstance(outcome, TimedOut)
    assert "bytes left out" in outcome.output
    assert len(outcome.output) < 70_000


async def test_a_file_cannot_fill_the_disk(folder: Path) -> None:
    limits = replace(Limits(), file_bytes=MEBIBYTE, scratch_bytes=MEBIBYTE)
    command = "yes > big; truncate -s 10G sparse; fallocate -l 100M full; yes > /tmp/x; yes > /dev/shm/x; ls"

    await run(command, folder, limits=limits)

    assert all(path.stat().st_size <= MEBIBYTE for path in folder.iterdir() if path.is_file())


# -- what is left behind


async def test_a_folder_swapped_for_a_link_between_calls_leads_nowhere(home: Path, folder: Path) -> None:
    await run("mkdir sub; echo x > sub/f", folder)
    await run(f"rm -r sub; ln -s '{home}' sub; ln -s / root; ln -s ../config.toml settings", folder)

    output = await run("cat sub/config.toml settings; ls root/root; echo x > sub/new; echo x > settings", folder)

    assert "canary" not in output
    assert not (home / "new").exists()
    assert (home / "config.toml").read_text() == "token = 'canary of the settings'"
    assert (home / "config.toml").stat().st_uid == os.geteuid()


@pytest.mark.parametrize("name", ["users", "skills"])
async def test_a_guarded_folder_that_is_a_link_or_file_stops_the_command(folder: Path, name: str) -> None:
    shutil.rmtree(folder / "users")
    (folder / name).symlink_to(folder.parent)
    request = SandboxRequest("touch ran", folder, hidden=(folder / "users",), readonly_folders=(folder / "skills",))

    linked = await bubblewrap().run(request)
    (folder / name).unlink()
    (folder / name).write_text("")
    filed = await bubblewrap().run(request)

    for outcome in (linked, filed):
        assert outcome == NotRun(f"{name} in the working folder is not a folder")
    assert not (folder / "ran").exists()


# -- folders that say what the agent does

CHANGES = (
    "echo x > {0}/new",
    "echo x >> {0}/one/SKILL.md",
    "rm -r {0}/one",
    "rm {0}/one/SKILL.md",
    "mv {0}/one {0}/two",
    "mkdir {0}/three",
    "ln -s /tmp {0}/four",
    "ln ordinary {0}/five",
    "chmod 777 {0} {0}/one/SKILL.md",
    "touch {0}/one/SKILL.md",
    "mv {0} other",
    "rmdir {0}; mkdir {0} && echo x > {0}/new",
    "rm -rf {0}",
    "rm -rf {0}; ln -s /tmp {0}",
    "mv -T ordinary-folder {0}",
    "ln {0}/one/SKILL.md mine && echo x > mine",
    "cp -a {0} copy && mv copy/one {0}/",
    'python3 -c \'import os; os.rename("ordinary-folder", "{0}")\'',
)


@pytest.mark.parametrize("name", ["skills", "hooks"])
async def test_a_command_reads_the_agents_folders_and_cannot_change_them(folder: Path, name: str) -> None:
    skill = folder / name / "one" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("be kind\n")
    skill.chmod(0o600)
    (folder / "ordinary").write_text("")
    (folder / "ordinary-folder").mkdir()
    command = "; ".join([f"cat {name}/one/SKILL.md", *(change.format(name) for change in CHANGES)])

    output = await run(command, folder, readonly_folders=(folder / "skills", folder / "hooks"))

    assert output.startswith("be kind\n")
    assert sorted(path.relative_to(folder / name).as_posix() for path in (folder / name).rglob("*")) == [
        "one",
        "one/SKILL.md",
    ]
    assert skill.read_text() == "be kind\n"
    assert skill.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["skills", "hooks"])
async def test_the_agents_folders_cannot_be_made_by_a_command_either(folder: Path, name: str) -> None:
    tool = shell_tool(bubblewrap(), folder)
    command = f"mkdir {name}; mkdir -p {name}/one; echo x > {name}/one/SKILL.md; ln -sfn /tmp {name}; mkdir out; ls"

    output = await tool.run(ShellArguments(command=command), make_context(scope=OperatorScope()))

    assert "out" in output.text
    assert os.listdir(folder / name) == []
    assert not (folder / name).is_symlink()


async def test_another_persons_folder_has_no_such_folders(folder: Path) -> None:
    tool = shell_tool(bubblewrap(), folder)

    output = await tool.run(
        ShellArguments(command="mkdir skills && touch skills/x && ls"),
        make_context(scope=PersonScope("telegram", "7")),
    )

    assert "skills" in output.text
    assert sorted(os.listdir(folder / "users" / "telegram" / "7")) == ["MEMORY.md", "skills"]
    assert sorted(os.listdir(folder)) == ["users"]
