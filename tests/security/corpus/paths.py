"""Names of files that lead elsewhere, hide something or are read in two ways."""

from __future__ import annotations

OUTSIDE = (
    "..", "../secret.txt", "../../secret.txt", "a/../../secret.txt", "./../secret.txt", "a/b/../../../secret.txt",
    ".. /secret.txt",
    "/etc/passwd", "/proc/self/root/etc/passwd", "/proc/self/environ", "/dev/stdin", "//etc/passwd", "/./etc/passwd",
    "/root/x",
    "/home/x", "/tmp/x", "/var/x", "~/x", "~root/x", "C:/x", "c:x", "C:\\x", "..\\secret.txt",
    "a\\..\\..\\secret.txt", "\\\\host\\share",
    "%2e%2e/secret.txt", "..%2fsecret.txt", "..%5csecret.txt", "%252e%252e/x", "a%00.txt", "a\x00.txt", "a\n.txt",
    "a\u202etxt.exe",
    "..\u200b/secret.txt", "\u2066..\u2069/secret.txt", "file\ufeff.txt", "a\ud800.txt", "/Users/x", "/ETC/passwd",
    "/\uff45tc/passwd",
    "link-out/secret.txt", "link-file", "deep/link-up/secret.txt",
)  # fmt: skip
"""Refused, or about nothing outside. `link-…` are links that the tests plant."""

SENSITIVE = (
    ".env", ".ENV", ".env.local", ".env.", ".env ", "\uff0eenv", "a/.env", ".ssh/config", ".SSH/config",
    ".\uff53sh/config", "id_rsa",
    "id_rsa.pub", "ID_ED25519", "server.pem", "server.PEM", "server.\uff50em", "server.key", "x.p12", ".netrc",
    "_netrc", ".npmrc",
    ".git/config", ".git-credentials", ".aws/credentials", ".kube/config", ".docker/config.json", ".bash_history",
    "gh/hosts.yml",
    "authorized_keys", "known_hosts", ".vault-token", ".pgpass", "store.jks", ".gnupg/x", "link-env",
)  # fmt: skip
"""Names of credentials, in every spelling that some file system takes for them."""

GUARDED = (
    "AGENTS.md", "agents.md", "AGENTS.MD", "\uff21GENTS.md", "SOUL.md", "soul.md ", "IDENTITY.md", "USER.md",
    "skills/x/SKILL.md",
    "SKILLS/x/SKILL.md", "s\uff4bills/x/SKILL.md", "hooks/hooks.json", "Hooks/hooks.json", "hooks./hooks.json",
    "skills /x/SKILL.md",
    "./skills/x/SKILL.md", "skills//x/SKILL.md", "/workspace/skills/x/SKILL.md", "skill\u017f/x/SKILL.md",
    "link-skills/x/SKILL.md",
)  # fmt: skip
"""What says who the bot is and what it does: it does not write there itself."""

HUGE = ("a" * 300, "a" * 100_000, "a/" * 40_000 + "b", "/".join("abc" * 60 for _ in range(30)), "\U0001f600" * 200)
"""Too long for a file system, or too deep for what walks it."""
