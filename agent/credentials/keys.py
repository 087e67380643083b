"""Where the master key comes from: the setting, else the system's keychain, else a file in the home.

Without the setting, the first use decides, and `master.key` in the home keeps the decision: it holds the key itself, or
the word that the keychain holds it. So a keychain that is locked one day is an error that says so; a second key made in
its place would leave every credential unreadable.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import structlog
from pydantic import SecretStr

from agent.credentials.errors import MasterKeyUnavailable
from agent.credentials.vault import MasterKey
from config.paths import display_path

log = structlog.get_logger(__name__)

KEY_FILE = "master.key"
KEYCHAIN_SERVICE = "optimclaw"
KEYCHAIN_TIMEOUT = timedelta(seconds=20)
_IN_KEYCHAIN = "keychain:"
_LONGEST_FILE = 4096
_KEY = re.compile(r"[0-9a-f]{64}")


class Keychain(Protocol):
    """A place of the operating system that keeps secrets by name. Both operations block."""

    def read(self, account: str) -> str | None:
        """The secret; None if it is not there or the keychain cannot be reached."""
        ...

    def write(self, account: str, secret: str) -> bool:
        """Keep a secret; False if that failed."""
        ...


class SystemKeychain:
    """The keychain through the `keyring` program, in a process of its own.

    So its libraries stay out of the bot's memory, whatever a backend raises stays there, and a backend that waits for
    somebody to type a password is stopped. The secret goes through pipes, never through arguments.
    """

    def __init__(self, command: Sequence[str], timeout: timedelta = KEYCHAIN_TIMEOUT) -> None:
        self._command = tuple(command)
        self._timeout = timeout

    def read(self, account: str) -> str | None:
        found = self._run("get", account, "")
        return None if found is None else found.rstrip("\r\n")

    def write(self, account: str, secret: str) -> bool:
        # Read back: the backend that keeps nothing reports success.
        return self._run("set", account, secret) is not None and self.read(account) == secret

    def _run(self, operation: str, account: str, given: str) -> str | None:
        command = [*self._command, operation, KEYCHAIN_SERVICE, account]
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, text=True, timeout=self._timeout.total_seconds(), check=False
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            log.warning("keychain_failed", operation=operation, error=type(error).__name__)
            return None
        if done.returncode != 0:
            log.warning("keychain_failed", operation=operation, exit=done.returncode)
            return None
        return done.stdout


def system_keychain() -> Keychain | None:
    """The keychain of this machine, if the optional package `keyring` is installed."""
    if importlib.util.find_spec("keyring") is None:
        return None
    return SystemKeychain((sys.executable, "-P", "-m", "keyring"))


def load_master_key(given: SecretStr | None, home: Path, keychain: Keychain | None) -> MasterKey:
    """The master key of this installation, made at the first call. Blocks. `given` is the setting.

    Raises MasterKeyUnavailable if there is one that cannot be used, or none can be kept.
    """
    if given is not None:
        return MasterKey(given.get_secret_value().encode("utf-8", "surrogatepass"))
    path = home / KEY_FILE
    shown = display_path(path, home)
    try:
        content = _read(path, shown)
        if content is None:
            _place(path, _new_content(keychain))
            content = _read(path, shown)  # ours, or that of a process that was faster
    except (OSError, UnicodeError) as error:
        raise MasterKeyUnavailable(
            f"The master key in {shown} cannot be read or written ({type(error).__name__}). "
            "Check the rights of the file and its folder, or set SECRETS_MASTER_KEY."
        ) from error
    return _key_of(content or "", shown, keychain)


def _new_content(keychain: Keychain | None) -> str:
    key, account = secrets.token_hex(32), f"master-key-{uuid4()}"
    if keychain is not None and keychain.write(account, key):
        log.info("master_key_created", kept_in="keychain")
        return f"{_IN_KEYCHAIN}{account}\n"
    log.info("master_key_created", kept_in="file", keychain="failed" if keychain else "missing")
    return f"{key}\n"


def _key_of(content: str, shown: str, keychain: Keychain | None) -> MasterKey:
    if _KEY.fullmatch(content):
        return MasterKey(bytes.fromhex(content))
    if not content.startswith(_IN_KEYCHAIN):
        raise MasterKeyUnavailable(
            f"{shown} does not hold a master key. Restore it from a backup. If there is none, remove the file: "
            "a new key is made, and stored credentials have to be entered again."
        )
    key = keychain.read(content.removeprefix(_IN_KEYCHAIN)) if keychain is not None else None
    if key is None or not _KEY.fullmatch(key):
        raise MasterKeyUnavailable(
            "The master key is in the system's keychain, which does not give it out. Unlock the keychain (and check "
            f"that the package keyring is installed). If the key is lost, remove {shown}: a new one is made, and "
            "stored credentials have to be entered again."
        )
    return MasterKey(bytes.fromhex(key))


def _read(path: Path, shown: str) -> str | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(handle, encoding="ascii") as file:
        if os.fstat(handle).st_mode & 0o077:
            raise MasterKeyUnavailable(
                f"{shown} can be read by other users of the machine, so it is not used. Run: chmod 600 {shown}"
            )
        return file.read(_LONGEST_FILE).strip()


def _place(path: Path, content: str) -> None:
    """Create the file with its whole content at once; one that is there already stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "w", encoding="ascii") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        try:
            os.link(draft, path)  # unlike a rename, it never replaces a key that is in use
        except FileExistsError:
            return
        _sync(path.parent)
    finally:
        draft.unlink()


def _sync(folder: Path) -> None:
    # A power cut must not take the key of credentials that were acknowledged.
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
