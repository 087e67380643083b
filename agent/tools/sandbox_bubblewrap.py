"""The shell inside bubblewrap: no files but its folder, no rights, no network but the hosts that a proxy lets it ask.

The mounts are made by whoever runs the bot. If that is root, the command itself runs as another user, because limits on
processes do not bind root and the kernel trusts it: an identity is derived from the folder, which is handed over to it.
It is taken on inside, after the mounts, so that a home only root may enter need not be opened for it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from zlib import crc32

from agent.tools.sandbox_door import PROBE_ANSWER, Door, find_python, launching, open_door, probing, proxy_variables
from agent.tools.sandbox_process import language_variables, run_program
from agent.tools.sandbox_proxy import HostProxy
from agent.tools.sandbox_request import Finished, NotRun, Outcome, SandboxRequest

WORKSPACE = PurePosixPath("/workspace")
AGENT_FILES = PurePosixPath("/agent")  # read-only files that do not lie in the folder

PROGRAM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
# By which programs know servers, on Debian, Alpine, Fedora and Arch. Keys lie beside them, never in them.
_CERTIFICATES = (
    *("/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf"),
    *("/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates/extracted"),
)
# Inside the range that systemd keeps free for users without an account (61184 to 65519).
_FIRST_UID, _UIDS = 62_000, 2_048
_CHOOM = "/usr/bin/choom"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH = 64
_CPU_MARGIN = timedelta(seconds=5)
_PROBE_TIMEOUT = timedelta(seconds=20)


class CannotPrepare(Exception):
    """The folder is not as it must be before a command may run in it. The text is for the model."""


class BubblewrapSandbox:
    """Runs each command in namespaces of its own. `proxy` None: without any network."""

    name = "bubblewrap"

    def __init__(self, program: str, environment: Mapping[str, str], proxy: HostProxy | None = None) -> None:
        self._program = program
        self._python = find_python(PROGRAM_PATH)
        self._proxy = proxy if self._python else None
        self._language = language_variables(environment)
        self._shell = shutil.which("bash", path="/usr/bin") or "/bin/sh"
        self._as_root = os.geteuid() == 0

    async def network_fault(self) -> str | None:
        """Why commands have no way to the proxy, by running one that tries; None if they have, or there is none."""
        if self._python is None or self._proxy is None:
            return "there is no Python in /usr to connect it"
        with TemporaryDirectory(prefix="sandbox-test-") as place:
            request = SandboxRequest(probing(self._python), Path(place, "folder"), timeout=_PROBE_TIMEOUT)
            outcome = await self.run(request)
        heard = isinstance(outcome, Finished) and outcome.output.strip() == PROBE_ANSWER
        return None if heard else "the proxy cannot be reached from inside"

    async def run(self, request: SandboxRequest) -> Outcome:
        if self._proxy is None:
            return await self._run(request, None)
        async with open_door(self._proxy) as door:
            outcome = await self._run(request, door)
        refusals = tuple(door.usage.refusals)
        return outcome if isinstance(outcome, NotRun) else replace(outcome, refusals=refusals)

    async def _run(self, request: SandboxRequest, door: Door | None) -> Outcome:
        uid = identity_of(request.folder) if self._as_root else os.geteuid()
        with ExitStack() as opened:
            try:
                files = await asyncio.to_thread(_prepare, request, uid if self._as_root else None, opened)
            except CannotPrepare as error:
                return NotRun(str(error))
            except OSError as error:
                return NotRun(f"the working folder could not be prepared: {error.strerror}")
            setup = open_text("\0".join(self._setup(request, files, door)), opened)
            descriptors = [setup, *(descriptor for descriptor, _ in files)]
            try:
                return await run_program(
                    [self._program, "--args", str(setup), "--", *self._command(request, uid, door)],
                    environment={"PATH": PROGRAM_PATH},  # readable inside as the environment of process 1
                    timeout=request.timeout,
                    output_bytes=request.limits.output_bytes,
                    descriptors=[*descriptors, door.descriptor] if door else descriptors,
                )
            except OSError as error:
                return NotRun(f"the sandbox could not be started: {error.strerror}")

    def _setup(
        self, request: SandboxRequest, files: Sequence[tuple[int, PurePosixPath]], door: Door | None
    ) -> Iterator[str]:
        """What is mounted and kept apart. Bubblewrap reads it from a file, since its arguments can be seen inside."""
        yield from self._isolation()
        yield from self._environment(request, proxy_variables() if door else {})
        yield from system_mounts(_CERTIFICATES if door else ())
        yield from fresh_mounts(request.limits.scratch_bytes)
        yield from ("--bind" if request.writable else "--ro-bind", str(request.folder), str(WORKSPACE))
        yield from _masks(request)
        for descriptor, target in files:
            yield from _data_mount(descriptor, target)
        yield from ("--remount-ro", "/")
        yield from ("--chdir", "/")  # root without its capabilities may not enter a folder that only its owner may

    def _command(self, request: SandboxRequest, uid: int, door: Door | None) -> Iterator[str]:
        """What runs inside."""
        yield from limits_of(request)
        yield from drop_to(uid) if self._as_root else ()
        yield from ("/usr/bin/env", "-C", str(WORKSPACE / request.workdir))
        yield from launching(self._python, door.descriptor) if door and self._python else ()
        yield from (self._shell, "-c", request.command)

    def _isolation(self) -> Iterator[str]:
        yield from ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
        yield from ("--die-with-parent", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL")
        if self._as_root:  # only to become somebody else, who keeps none of them
            yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP")
        else:
            yield from ("--unshare-user",)

    def _environment(self, request: SandboxRequest, proxies: Mapping[str, str]) -> Iterator[str]:
        variables = {
            **self._language,
            **proxies,
            "PATH": PROGRAM_PATH,
            "HOME": str(WORKSPACE),
            "PWD": str(WORKSPACE / request.workdir),
            "USER": "agent",
            "LOGNAME": "agent",
            "SHELL": self._shell,
            "TMPDIR": "/tmp",
        }
        yield "--clearenv"
        for name, value in variables.items():
            yield from ("--setenv", name, value)


def identity_of(folder: Path) -> int:
    """The user and group that owns a folder and all that runs in it: always the same for a folder."""
    return _FIRST_UID + crc32(os.fsencode(folder)) % _UIDS


def _prepare(request: SandboxRequest, owner: int | None, opened: ExitStack) -> tuple[tuple[int, PurePosixPath], ...]:
    """Make the folder ready and open the files to be shown in it: descriptors, and where they appear."""
    request.folder.mkdir(parents=True, exist_ok=True)
    for place in (*request.hidden, *request.readonly_folders):
        with suppress(FileExistsError):
            place.mkdir()  # now, so that one made by somebody while the command runs is held, too
        if not stat.S_ISDIR(place.lstat().st_mode):
            raise CannotPrepare(f"{place.name} in the working folder is not a folder")
    if owner is not None:
        kept = (path for path in (*request.hidden, *request.readonly) if path.is_relative_to(request.folder))
        hand_over(request.folder, owner, frozenset(kept))
    name, uid = ("agent", owner if owner is not None else os.geteuid())
    files = [
        (open_text(f"{name}:x:{uid}:{uid}::{WORKSPACE}:/bin/sh\n", opened), PurePosixPath("/etc/passwd")),
        (open_text(f"{name}:x:{uid}:\n", opened), PurePosixPath("/etc/group")),
    ]
    for path in request.readonly:
        if (descriptor := _open_plain_file(path, opened)) is not None:
            inside = path.is_relative_to(request.folder)
            files.append(
                (descriptor, WORKSPACE / path.relative_to(request.folder) if inside else AGENT_FILES / path.name)
            )
    return tuple(files)


def hand_over(folder: Path, owner: int, kept: frozenset[Path]) -> None:
    """Give `folder` and what is in it to `owner`, without following links, and without what is `kept`.

    What lies deeper than `_MAX_DEPTH` is left alone: only commands make such trees, and those are their own already.
    """
    descriptor = os.open(folder, _FOLDER)
    try:
        if os.fstat(descriptor).st_uid != owner:
            os.fchown(descriptor, owner, owner)
        _hand_over_content(descriptor, owner, frozenset(path.relative_to(folder).parts for path in kept), ())
    finally:
        os.close(descriptor)


def _hand_over_content(descriptor: int, owner: int, kept: frozenset[tuple[str, ...]], place: tuple[str, ...]) -> None:
    device = os.fstat(descriptor).st_dev
    for name in os.listdir(descriptor):
        path = (*place, name)
        try:
            entry = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            continue  # another command of this folder runs
        is_folder = stat.S_ISDIR(entry.st_mode)
        linked = entry.st_nlink > 1 and not is_folder  # its other name may lie anywhere
        if path in kept or entry.st_dev != device or linked:
            continue
        with suppress(FileNotFoundError, NotADirectoryError):
            if entry.st_uid != owner:
                os.chown(name, owner, owner, dir_fd=descriptor, follow_symlinks=False)
            if is_folder and len(path) < _MAX_DEPTH:
                inner = os.open(name, _FOLDER, dir_fd=descriptor)
                try:
                    _hand_over_content(inner, owner, kept, path)
                finally:
                    os.close(inner)


def _open_plain_file(path: Path, opened: ExitStack) -> int | None:
    """A descriptor of a file that is shown read-only. A link is refused: a command may have put it there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotPrepare(f"{path.name} cannot be shown to the command, it is not a plain file") from error
    opened.callback(os.close, descriptor)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise CannotPrepare(f"{path.name} cannot be shown to the command, it is not a plain file")
    return descriptor


def open_text(text: str, opened: ExitStack) -> int:
    """A descriptor that gives `text`, until `opened` is left."""
    descriptor = os.memfd_create("text", os.MFD_CLOEXEC)
    opened.callback(os.close, descriptor)
    os.write(descriptor, text.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def system_mounts(further: Sequence[str]) -> Iterator[str]:
    """The machine's programs and libraries, for reading, and `further` files."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _SYSTEM_FOLDERS:
        place = Path("/", name)
        if place.is_symlink():
            yield from ("--symlink", os.readlink(place), f"/{name}")
        elif place.is_dir():
            yield from ("--ro-bind", f"/{name}", f"/{name}")
    parents = {str(place) for file in further for place in PurePosixPath(file).parents[:-2]}
    for folder in ("/etc", str(AGENT_FILES), *sorted(parents)):  # else made by bubblewrap, for its user alone
        yield from ("--perms", "0755", "--dir", folder)
    for file in (*_SYSTEM_FILES, *further):
        yield from ("--ro-bind-try", file, file)


def fresh_mounts(scratch_bytes: int) -> Iterator[str]:
    """Processes, devices and scratch space of its own."""
    yield from ("--proc", "/proc", "--dev", "/dev")
    for place in ("/dev/shm", "/tmp"):
        yield from ("--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", place)
    yield from ("--remount-ro", "/dev")


def _masks(request: SandboxRequest) -> Iterator[str]:
    for hidden in request.hidden:
        target = str(WORKSPACE / hidden.relative_to(request.folder))
        yield from ("--perms", "0555", "--tmpfs", target, "--remount-ro", target)
    for shown in request.readonly_folders:
        yield from ("--ro-bind", str(shown), str(WORKSPACE / shown.relative_to(request.folder)))


def _data_mount(descriptor: int, target: PurePosixPath) -> Iterable[str]:
    return "--perms", "0444", "--ro-bind-data", str(descriptor), str(target)


def limits_of(request: SandboxRequest) -> Iterator[str]:
    """The beginning of a command line that keeps what follows within the limits."""
    limits = request.limits
    yield "/usr/bin/prlimit"
    yield f"--data={limits.memory_bytes}"
    yield f"--fsize={limits.file_bytes}"
    yield f"--nproc={limits.processes}"
    yield f"--cpu={int((request.timeout + _CPU_MARGIN).total_seconds())}"
    yield "--core=0"
    yield "--"
    if Path(_CHOOM).exists():  # if memory runs out, the command goes before the bot
        yield from (_CHOOM, "-n", "1000", "--")


def drop_to(uid: int) -> Iterable[str]:
    """The beginning of a command line that runs what follows as another user, who can gain nothing."""
    return (
        "/usr/bin/setpriv",
        f"--reuid={uid}",
        f"--regid={uid}",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
        "--no-new-privs",
        "--",
    )
