"""Which containers this machine can give, and the test that they hold."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from agent.jobs.container.bubblewrap import BubblewrapHost
from agent.jobs.container.engine import RUNC, EngineHost, Image, make_skeleton
from agent.jobs.container.host import ContainerHost, Launch, RefusingHost, owner_for, worker_program
from agent.tools.sandbox_bubblewrap import identity_of

log = structlog.get_logger(__name__)

PROBE = "--probe"
_PROBE_SECONDS = 40.0
Find = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class ContainerSettings:
    """`backend` is auto, podman, docker, bubblewrap or off; `image` or `rootfs` what podman's containers begin with.

    `own_root`: where a root of empty folders may be made, to which this machine's /usr is added.
    """

    backend: str
    image: str
    rootfs: Path | None
    own_root: Path


async def choose_container(
    settings: ContainerSettings, mark: str, find: Find = shutil.which
) -> ContainerHost | RefusingHost:
    """The first that works of podman, docker and bubblewrap, or that one which was chosen; else why there is none."""
    if settings.backend == "off":
        return RefusingHost("the operator has switched them off (SANDBOX_CONTAINER=off).")
    if sys.platform != "linux":
        return RefusingHost("they need Linux.")
    faults: list[str] = []
    for host in await asyncio.to_thread(lambda: list(_candidates(settings, find, faults))):
        if (fault := await fault_of(host, mark)) is None:
            log.info("containers_ready", backend=host.name)
            return host
        log.warning("container_backend_unusable", backend=host.name, reason=fault)
        faults.append(f"{host.name}: {fault}")
    said = "; ".join(dict.fromkeys(faults)) or "neither podman nor docker nor bubblewrap is installed"
    return RefusingHost(f"{said}.")


def _candidates(settings: ContainerSettings, find: Find, faults: list[str]) -> Iterator[ContainerHost]:
    wanted = settings.backend
    for name in ("podman", "docker"):
        if wanted not in ("auto", name):
            continue
        if (command := find(name)) is None:
            if wanted == name:
                faults.append(f"{name} is not installed")
            continue
        image = _image(settings, name)
        if image is None:
            if wanted == name:
                faults.append(f"{name} needs an image: set SANDBOX_CONTAINER_IMAGE")
            continue
        host = EngineHost(name, command, image, worker_program(is_own_system=image.is_own_system))
        yield host
        if name == "podman" and find("runc") is not None:
            yield replace(host, options=RUNC)
    if wanted in ("auto", "bubblewrap"):
        if (command := find("bwrap")) is not None:
            yield BubblewrapHost(command, worker_program(is_own_system=True))
        elif wanted == "bubblewrap":
            faults.append("bubblewrap is not installed")


def _image(settings: ContainerSettings, engine: str) -> Image | None:
    """What containers of an engine begin with; docker knows images only."""
    if settings.image:
        return Image(name=settings.image)
    if engine != "podman":
        return None
    if settings.rootfs is not None:
        return Image(root=settings.rootfs)
    make_skeleton(settings.own_root)
    return Image(root=settings.own_root, is_own_system=True)


async def fault_of(host: ContainerHost, mark: str) -> str | None:
    """What a container of this host fails to do or to keep, by starting one that tries; None if it holds."""
    place = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="container-test-"))
    try:
        owner = owner_for(identity_of(place))
        await asyncio.to_thread(_hand_to, place, owner)
        launch = Launch(f"{mark}probe-{secrets.token_hex(4)}", place, owner, None, (PROBE,))
        async with asyncio.timeout(_PROBE_SECONDS), host.running(launch) as container:
            status, said = await container.ended(), await container.last_words()
        fault = judge(status, said)
        if fault is not None:  # what an engine says is for the operator: it may name paths of the machine
            log.warning("container_self_test_failed", backend=host.name, said=" ".join(said.split())[-300:])
        return fault
    except TimeoutError:
        return "its self-test did not end in time"
    except OSError as error:
        return f"it could not be started: {error.strerror}"
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def judge(status: int, output: str) -> str | None:
    """What the worker's report of its surroundings shows to be wrong. Pure."""
    line = next((each for each in reversed(output.splitlines()) if each.startswith("{")), "")
    try:
        found = json.loads(line)
    except ValueError:
        return f"its self-test ended with status {status}"
    if not isinstance(found, dict) or status != 0:
        return f"its self-test ended with status {status}"
    if not found.get("writes"):
        return "it cannot write in its folder"
    if found.get("uid") == 0:
        return "it runs as root"
    if found.get("interfaces"):
        return "it has a network"
    if found.get("sees") or found.get("writes_elsewhere"):
        return "it sees or changes files of the machine"
    return None


def _hand_to(place: Path, owner: int) -> None:
    if os.geteuid() == 0:
        os.chown(place, owner, owner)
