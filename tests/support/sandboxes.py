"""Real sandboxes for tests, and a folder to run them in."""

from __future__ import annotations

import os
import shutil

import pytest

from agent.tools.sandbox import BubblewrapSandbox, Finished, Sandbox, SandboxRequest
from agent.tools.sandbox_proxy import HostProxy

BWRAP = shutil.which("bwrap")
needs_bubblewrap = pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed: the sandbox is NOT tested")
ENVIRONMENT = {"LANG": "C.UTF-8", "LC_TIME": "C", "PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "canary-key"}


def bubblewrap(proxy: HostProxy | None = None) -> BubblewrapSandbox:
    """The sandbox of this machine."""
    assert BWRAP is not None
    return BubblewrapSandbox(BWRAP, ENVIRONMENT, proxy)


async def finish(sandbox: Sandbox, request: SandboxRequest) -> Finished:
    """The result of a command that ends by itself."""
    outcome = await sandbox.run(request)
    assert isinstance(outcome, Finished), outcome
    return outcome
