"""Writes docs/reference/settings.md from `default.toml` and the settings' models.

python -m tests.support.settings_reference
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from config.features import NOT_BUILT_YET
from config.options import Catalogue, Option, Place, catalogue
from config.settings import Extension
from config.sources import DEFAULTS
from tests.support.settings import EXTENSIONS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"

HEAD = """\
# Settings

Each setting is a variable of the environment, or a key of `config.toml` in the bot's home. The order is: defaults, then
`config.toml`, then variables; a `.env` file in the working folder is read first and never wins over a real variable.

- An empty value is not set. Lists are comma separated; in the file they may also be TOML lists.
- A secret can stand in a file of its own: name that file by the variable with `_FILE` at its end
  (`TELEGRAM_BOT_TOKEN_FILE=/run/secrets/telegram`), or by the key with `_file`.
- The bot reports everything that is wrong with its settings at once and exits with status 2. A key that it does not
  know is wrong; a variable that is nearly one of its own is pointed out in the log.
- A variable that is not on this page belongs to somebody else and does nothing here.

Two variables have no key in the file:

| variable | default | meaning |
|---|---|---|
| `OPTIMCLAW_HOME` | `~/.optimclaw` | the folder of all state: config.toml, the database, the workspace |
| `PORT` | | wins over `WEB_PORT`, as platforms that run programs expect |
"""


def render() -> str:
    """The page."""
    known = catalogue(EXTENSIONS)
    parts = [HEAD]
    for place, model in known.models.items():
        fields = model.model_fields
        rows = [_row(option, *_said(option, fields[option.field])) for option in known.options_of(place)]
        title = f"## `[{'.'.join(place)}]`\n"
        note = "\nNothing to set.\n" if not rows else ""
        table = ["\n| variable | key | default | allowed | meaning |\n|---|---|---|---|---|\n", *rows] if rows else []
        parts.append("".join([title, _enabling(place, model, known), note, *table]))
    return "\n".join(parts)


def _row(option: Option, default: str, meaning: str) -> str:
    later = " (accepted, without effect yet)" if option.env in NOT_BUILT_YET else ""
    shown = f"`{default}`" if default else ""
    secret = ", secret" if option.is_secret else ""
    return f"| `{option.env}` | `{option.place[-1]}` | {shown} | {option.allowed}{secret} | {meaning}{later} |\n"


def _said(option: Option, field: FieldInfo) -> tuple[str, str]:
    """Default and meaning: from `default.toml`, or from the model where an extension owns them."""
    commented = dict(_commented_defaults())
    if option.place in commented:
        return commented[option.place]
    default = "" if field.is_required() or field.default in (None, ()) else str(field.default)
    return default.lower() if isinstance(field.default, bool) else default, field.description or ""


def _commented_defaults() -> Iterator[tuple[Place, tuple[str, str]]]:
    table = ""
    for line in DEFAULTS.read_text("utf-8").splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            table = header[1]
        elif option := re.fullmatch(r"(\w+) = (.*?)  # (.+)", line):
            default = option[2].strip('"')
            yield (table, option[1]), ("" if default == "[]" else default, option[3])


def _enabling(place: Place, model: type, known: Catalogue) -> str:
    if not issubclass(model, Extension) or not model.enabled_by:
        return ""
    names = " or ".join(f"`{known.by_place[(*place, field)].env}`" for field in model.enabled_by)
    return f"\nIn use only with {names}.\n"


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")
