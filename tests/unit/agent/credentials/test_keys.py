from __future__ import annotations

import importlib.util
import os
import stat
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from agent.credentials.errors import MasterKeyUnavailable
from agent.credentials.keys import KEY_FILE, SystemKeychain, load_master_key, system_keychain

GIVEN = SecretStr("a setting of more than thirty-two characters: ÄÖ")


class MemoryKeychain:
    """Satisfies `Keychain`. While `is_locked` is set it gives and takes nothing."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.is_locked = False

    def read(self, account: str) -> str | None:
        return None if self.is_locked else self.kept.get(account)

    def write(self, account: str, secret: str) -> bool:
        if not self.is_locked:
            self.kept[account] = secret
        return not self.is_locked


def refusal(home: Path, keychain: MemoryKeychain | None = None) -> str:
    with pytest.raises(MasterKeyUnavailable) as refused:
        load_master_key(None, home, keychain)
    return str(refused.value)


# -- the setting -----------------------------------------------------------------------------------------------
def test_setting_wins_over_keychain_and_file_and_leaves_no_trace(tmp_path: Path) -> None:
    keychain = MemoryKeychain()

    key = load_master_key(GIVEN, tmp_path, keychain)

    assert key.material == GIVEN.get_secret_value().encode()
    assert keychain.kept == {}
    assert list(tmp_path.iterdir()) == []


# -- the file --------------------------------------------------------------------------------------------------
def test_without_a_keychain_the_key_is_a_file_for_its_owner_alone_and_stays_the_same(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"

    key = load_master_key(None, home, None)

    assert len(key.material) == 32
    assert load_master_key(None, home, None) == key
    assert [path.name for path in home.iterdir()] == [KEY_FILE]
    assert stat.S_IMODE((home / KEY_FILE).stat().st_mode) == 0o600


def test_each_home_has_a_key_of_its_own(tmp_path: Path) -> None:
    assert load_master_key(None, tmp_path / "a", None) != load_master_key(None, tmp_path / "b", None)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_file_that_others_can_read_is_refused_with_the_cure(tmp_path: Path, mode: int) -> None:
    key = load_master_key(None, tmp_path, None)
    (tmp_path / KEY_FILE).chmod(mode)

    told = refusal(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o600)

    assert "chmod 600 $OPTIMCLAW_HOME/master.key" in told
    assert str(tmp_path) not in told
    assert load_master_key(None, tmp_path, None) == key


@pytest.mark.parametrize("content", [b"", b"abc\n", b"g" * 64, b"a" * 65, b"\xff\xfe", b"a" * 5000])
def test_damaged_file_is_an_error_that_shows_and_changes_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / KEY_FILE
    path.write_bytes(content)
    path.chmod(0o600)

    told = refusal(tmp_path)

    assert "master.key" in told
    assert "aaaa" not in told
    assert path.read_bytes() == content


def test_home_that_cannot_hold_the_file_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")

    assert "SECRETS_MASTER_KEY" in refusal(tmp_path / "home")


def test_processes_that_make_the_key_at_once_agree_on_it(tmp_path: Path) -> None:
    keys: list[bytes] = []
    barrier = threading.Barrier(8)

    def load() -> None:
        barrier.wait(10)
        keys.append(load_master_key(None, tmp_path, None).material)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert len(keys) == 8
    assert len(set(keys)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


# -- the keychain ----------------------------------------------------------------------------------------------
def test_keychain_keeps_the_key_and_the_file_says_only_that(tmp_path: Path) -> None:
    keychain = MemoryKeychain()

    key = load_master_key(None, tmp_path, keychain)

    assert list(keychain.kept.values()) == [key.material.hex()]
    assert key.material.hex() not in (tmp_path / KEY_FILE).read_text()
    assert load_master_key(None, tmp_path, keychain) == key


def test_keychain_that_fails_at_first_is_replaced_by_the_file_for_good(tmp_path: Path) -> None:
    keychain = MemoryKeychain()
    keychain.is_locked = True

    with capture_logs() as logs:
        key = load_master_key(None, tmp_path, keychain)
    keychain.is_locked = False

    assert load_master_key(None, tmp_path, keychain) == key
    assert keychain.kept == {}
    assert [(entry["event"], entry["kept_in"], entry["keychain"]) for entry in logs] == [
        ("master_key_created", "file", "failed")
    ]
    assert key.material.hex() not in str(logs)


def test_keychain_that_is_locked_later_is_an_error_and_no_second_key_is_made(tmp_path: Path) -> None:
    keychain = MemoryKeychain()
    key = load_master_key(None, tmp_path, keychain)

    keychain.is_locked = True
    told = refusal(tmp_path, keychain)
    without = refusal(tmp_path, None)
    keychain.is_locked = False

    assert "Unlock the keychain" in told
    assert "keyring" in without
    assert load_master_key(None, tmp_path, keychain) == key


def test_keychain_that_gives_something_else_is_an_error_that_does_not_show_it(tmp_path: Path) -> None:
    keychain = MemoryKeychain()
    load_master_key(None, tmp_path, keychain)
    keychain.kept = dict.fromkeys(keychain.kept, "canary, no key")

    assert "canary" not in refusal(tmp_path, keychain)


# -- the keychain's program ------------------------------------------------------------------------------------
PROGRAM = """
import pathlib, sys
operation, service, account = sys.argv[1:]
path = pathlib.Path({folder!r}, service + "-" + account)
if operation == "set":
    path.write_text(sys.stdin.read())
elif path.exists():
    print(path.read_text())
else:
    sys.exit(1)
"""


def program(folder: Path, code: str) -> SystemKeychain:
    path = folder / "keychain.py"
    path.write_text(code)
    return SystemKeychain((sys.executable, "-S", str(path)), timedelta(seconds=20))


def test_keychains_program_keeps_secrets_by_account(tmp_path: Path) -> None:
    keychain = program(tmp_path, PROGRAM.format(folder=str(tmp_path)))

    assert keychain.read("a") is None
    assert keychain.write("a", "one")
    assert keychain.write("b", "two")
    assert (keychain.read("a"), keychain.read("b")) == ("one", "two")
    assert (tmp_path / "optimclaw-a").read_text() == "one"


def test_machine_has_a_keychain_where_its_package_is_installed() -> None:
    assert (system_keychain() is not None) is (importlib.util.find_spec("keyring") is not None)


@pytest.mark.parametrize(
    "code",
    [
        "raise SystemExit(1)",
        "raise RuntimeError('no backend for canary-secret')",
        "import sys; sys.stdin.read()",  # takes everything, keeps nothing
        "import sys; sys.stdin.close()",
        "import os; os.write(1, b'\\xff\\xfe')",
    ],
)
def test_failing_program_is_no_keychain_and_its_words_are_not_logged(tmp_path: Path, code: str) -> None:
    keychain = program(tmp_path, code)

    with capture_logs() as logs:
        assert not keychain.write("a", "canary-secret")

    assert not keychain.read("a")
    assert "canary-secret" not in str(logs)


def test_program_that_waits_for_a_person_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "keychain.py"
    path.write_text("import time; time.sleep(600)")
    keychain = SystemKeychain((sys.executable, "-S", str(path)), timedelta(seconds=0.3))

    with capture_logs() as logs:
        assert keychain.read("a") is None

    assert logs[0]["error"] == "TimeoutExpired"


def test_missing_program_is_no_keychain(tmp_path: Path) -> None:
    assert SystemKeychain((str(tmp_path / "nothing"),)).read("a") is None


def test_secret_never_stands_in_the_programs_arguments(tmp_path: Path) -> None:
    keychain = program(
        tmp_path, f"import pathlib, sys; pathlib.Path({str(tmp_path)!r}, 'seen').open('a').write(str(sys.argv))"
    )

    keychain.write("a", "canary-secret")

    assert "'set', 'optimclaw', 'a'" in (tmp_path / "seen").read_text()
    assert "canary-secret" not in (tmp_path / "seen").read_text()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_file_of_another_user_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    load_master_key(None, tmp_path, None)
    (tmp_path / KEY_FILE).chmod(0)

    assert "SECRETS_MASTER_KEY" in refusal(tmp_path)
