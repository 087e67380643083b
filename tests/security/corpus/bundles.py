"""Archives, YAML and JSON that mean harm."""

from __future__ import annotations

import io
import stat
import struct
import warnings
import zipfile
from collections.abc import Mapping

GOOD = "---\nname: good\ndescription: fine\n---\nDo it well.\n"


def packed(*entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of these entries, in this order, twice the same name if so asked."""
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, data in entries:
            archive.writestr(name, data)
    return out.getvalue()


def link(name: str, target: str) -> tuple[zipfile.ZipInfo, bytes]:
    """An entry that is a symbolic link."""
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry, target.encode()


def _lying_about_its_size() -> bytes:
    data = bytearray(packed(("SKILL.md", GOOD.encode() + b"x" * 5_000_000)))
    at = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 100)  # the size it claims once unpacked
    return bytes(data)


_FILE = ("SKILL.md", GOOD.encode())

ARCHIVES: Mapping[str, bytes] = {
    "a path upwards": packed(_FILE, ("../evil.txt", b"x")),
    "a path upwards inside": packed(_FILE, ("a/../../evil.txt", b"x")),
    "an absolute path": packed(_FILE, ("/etc/evil", b"x")),
    "a backslash": packed(_FILE, ("..\\evil.txt", b"x")),
    "a drive": packed(_FILE, ("C:evil.txt", b"x")),
    "a link": packed(link("SKILL.md", "/etc/passwd")),
    "a link beside it": packed(_FILE, link("notes", "/etc")),
    "the same name twice": packed(_FILE, _FILE),
    "two skills": packed(("a/SKILL.md", GOOD.encode()), ("b/SKILL.md", GOOD.encode())),
    "an archive inside": packed(_FILE, ("more.zip", packed(_FILE))),
    "no skill": packed(("readme.txt", b"x")),
    "a folder of its name": packed(("SKILL.md/", b"")),
    "a bomb": packed(("SKILL.md", GOOD.encode() + b"x" * 50_000_000)),
    "a size that is not true": _lying_about_its_size(),
    "many entries": packed(_FILE, *((f"f{number}", b"") for number in range(5_000))),
    "nothing": packed(),
    "half of an archive": packed(_FILE)[:60],
    "an unknown packing": packed(_FILE, method=zipfile.ZIP_BZIP2),
    "the beginning alone": b"PK\x03\x04",
    "too large": packed(("SKILL.md", GOOD.encode()), ("x", b"\x00" * 2_000_000), method=zipfile.ZIP_STORED),
}
"""Each is refused whole."""

_LAUGHS = "\n".join([f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" if n else "a0: &a0 [lol]" for n in range(9)])

HEADS: Mapping[str, str] = {
    "a billion laughs": f"name: good\n{_LAUGHS}",
    "an anchor": "name: &x good\ndescription: *x",
    "a merge key": "base: &base {name: evil}\n<<: *base",
    "deep lists": "name: good\ntags: " + "[" * 5_000,
    "deep lists that end": "name: good\nextra: " + "[" * 1_000 + "]" * 1_000,
    "deep maps": "name: good\nextra: " + "{a: " * 2_000,
    "an endless list": "name: good\nextra: [" + ",".join("a" * 1 for _ in range(20_000)) + "]",
    "a list as a key": "? [a, b]\n: c\nname: good",
    "a map as a key": "? {a: b}\n: c\nname: good",
    "a directive": "%YAML 9.9\n---\nname: good",
    "a control character": "name: go\x07od",
    "no map": "- name: good",
    "nothing": "",
    "a name that is a path": "name: ../../evil",
    "a name that is a list": "name: [good]",
    "a tag that is unclosed": "name: !!python/object/apply:os.system [",
    "a huge number": "name: good\nactivation: {max_context_tokens: 99999999999999999999999}",
}
"""Front matter that is refused."""

HARMLESS_HEADS: Mapping[str, str] = {
    "a Python object": "name: good\ndescription: !!python/object/apply:os.system ['touch evil']",
    "a Python name": "name: !!python/name:os.system good",
    "a binary": "name: !!binary good",
    "a date and a truth": "name: good\nversion: 2020-01-01\nextra: yes",
    "two documents": "name: good\n--- \nname: evil",
    "the same key twice": "name: evil\nname: good",
    "a merge key without anchor": "name: good\n<<: {name: evil}",
}
"""Front matter that is read as text alone, or refused: nothing of it is ever run."""

EXPRESSIONS = (
    "(a+)+$", "(a|a)*$", "(a|aa)+$", "(.*)*x", "(.*a){25}", "(x+x+)+y", "([a-zA-Z]+)*$", "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(?:a?){40}a{40}", "a{1000}{1000}", "(a{1,1000}){1,1000}", "(?=a)b", r"(a)\1", "(", "[",
    "a{999999}", "\\p{L}{500}" * 3,
    "((((((((((a*)*)*)*)*)*)*)*)*)*)*", "(?P<n>a", "\x00", "\ud800",
)  # fmt: skip
"""Regular expressions that backtrack for ever, grow without measure or are none."""


def deep(levels: int, opening: str = "[", closing: str = "]") -> str:
    """JSON nested so deeply."""
    return opening * levels + closing * levels


JSONS: Mapping[str, str] = {
    "deep lists": deep(100_000),
    "deep lists that never end": "[" * 100_000,
    "deep objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "a number of many digits": "9" * 50_000,
    "an endless number": "1e999999",
    "no number": "NaN",
    "many keys": "{" + ",".join(f'"{number}":0' for number in range(10_000)) + "}",
    "one key many times": "{" + ",".join('"a":0' for _ in range(10_000)) + "}",
    "half a character": '"\\ud800"',
    "a NUL": '"\\u0000"',
    "nothing": "",
    "cut off": '{"a": "b',
}
