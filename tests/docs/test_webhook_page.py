"""The page on the webhook shows how to sign: what it prints is what the bot takes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bot.web.access import bears_signature
from bot.web.webhook_post import PostBody, PostedFile, parse_post
from channels.message import ReplyKind
from tests.docs.pages import ROOT, as_module, blocks, table_rows
from tests.support.webhook_bench import SECRET, signed

PAGE = ROOT / "docs" / "use-the-webhook.md"


def printed(language: str, holding: str) -> str:
    return next(block.text for block in blocks(PAGE) if block.language == language and holding in block.text)


def body() -> bytes:
    found = re.search(r"^body='(.+)'$", printed("bash", "curl"), re.MULTILINE)
    assert found is not None
    return found[1].encode()


def test_printed_body_is_a_post_that_waits() -> None:
    post = parse_post(body())

    assert (post.text, post.waits, post.conversation) == ("What is 2 + 2?", True, "main")


def test_printed_python_makes_the_signature_that_is_taken(tmp_path: Path) -> None:
    with as_module(printed("python", "hmac"), "documented_signature", tmp_path) as module:
        made = module.signature(body(), SECRET)

    assert {"X-Hub-Signature-256": made} == signed(body())
    assert bears_signature({"X-Hub-Signature-256": made}, body(), SECRET)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_printed_shell_makes_the_same_signature() -> None:
    lines = [line for line in printed("bash", "curl").splitlines() if not line.startswith("curl")]
    script = "\n".join([*lines, 'printf "sha256=%s" "$signature"'])
    done = subprocess.run(
        ["bash", "-c", script],
        env={"WEBHOOK_SECRET": SECRET, "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == signed(body())["X-Hub-Signature-256"]


def test_tables_name_every_field_and_kind() -> None:
    first_cells = {row[0].strip("`") for row in table_rows(PAGE.read_text("utf-8"))}

    assert set(PostBody.model_fields) <= first_cells
    assert {str(kind) for kind in ReplyKind} - first_cells == {"message", "amendment", "finding"}
    (file,) = json.loads(printed("json", "attachments"))["attachments"]
    assert set(file) == set(PostedFile.model_fields)
