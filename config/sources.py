"""Where values come from: the defaults, the file in the home, the environment. Reads; does not judge the values."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from config.dotenv import parse_dotenv
from config.errors import ConfigError, Fault
from config.options import FILE_SUFFIX, Catalogue, Option, Place, nearest

DEFAULTS = Path(__file__).with_name("default.toml")


@dataclass(frozen=True, slots=True)
class Given:
    """A value as it was found, and the name under which it was."""

    value: object
    name: str


@dataclass(slots=True)
class Layer:
    """What one source says. A later layer wins over an earlier one."""

    values: dict[Place, Given] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What `default.toml` says: everything but the extensions, which own their defaults."""

    home: str
    values: dict[Place, Given]


def read_defaults(known: Catalogue) -> Defaults:
    """The defaults. Raises ConfigError if `default.toml` does not fit the models: a defect of ours."""
    tables = tomllib.loads(DEFAULTS.read_text("utf-8"))
    home = str(tables.pop("home"))
    layer = Layer()
    _flatten(tables, (), known, DEFAULTS.parent, layer)
    if layer.faults:
        raise ConfigError(layer.faults)
    return Defaults(home, layer.values)


def read_environment(environ: Mapping[str, str], cwd: Path | None) -> tuple[dict[str, str], list[Fault]]:
    """The variables, those of a `.env` file in `cwd` included where there is no real one of that name.

    Values lose surrounding blanks; what is then empty is not set.
    """
    dotenv: dict[str, str] = {}
    faults: list[Fault] = []
    if cwd is not None and (path := cwd / ".env").is_file():
        text, problem = _read(path)
        dotenv, bad_lines = parse_dotenv(text)
        faults = [Fault(".env", problem)] if problem else []
        faults += [Fault(f".env line {number}", "allowed: NAME=VALUE, or a comment after #") for number in bad_lines]
    merged = {name: value.strip() for name, value in (dotenv | dict(environ)).items()}
    return {name: value for name, value in merged.items() if value}, faults


def read_file(path: Path, known: Catalogue) -> Layer:
    """What the file in the home says; nothing if there is none."""
    layer = Layer()
    if not path.exists():
        return layer
    text, problem = _read(path)
    if problem:
        layer.faults.append(Fault(path.name, problem))
        return layer
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        layer.faults.append(Fault(path.name, f"is not TOML: {error}"))
        return layer
    _flatten(tables, (), known, path.parent, layer)
    if any(known.by_place[place].is_secret for place in layer.values) and path.stat().st_mode & 0o077:
        layer.warnings.append(f"{path.name} holds secrets, and other users of this machine can read it: chmod 600 it")
    return layer


def take_variables(environ: Mapping[str, str], known: Catalogue, folder: Path) -> Layer:
    """What the variables say; `PORT` wins over `WEB_PORT`. Secrets' files that are relative start in `folder`."""
    layer = Layer()
    for option in known.by_env.values():
        twin = option.env + FILE_SUFFIX.upper()
        names = [name for name in (option.env, twin if option.is_secret else "") if name in environ]
        for name in names:
            _take(option, name, environ[name], name == twin, folder, layer)
        if len(names) > 1:
            layer.faults.append(Fault(option.env, f"and {twin} are both set; allowed: one of them"))
    if "PORT" in environ:
        layer.values["web", "port"] = Given(environ["PORT"], "PORT")
    layer.warnings += _strangers(environ, known)
    return layer


def _strangers(environ: Collection[str], known: Catalogue) -> Iterator[str]:
    """A sentence on each variable that is nearly one of ours."""
    names = {*known.by_env, "OPTIMCLAW_HOME"}
    names |= {option.env + FILE_SUFFIX.upper() for option in known.by_env.values() if option.is_secret}
    prefixes = known.prefixes
    for name in sorted(environ):
        if name in names or not name.startswith(prefixes):
            continue
        prefix = name[: name.index("_") + 1]
        # Others use these prefixes too: only what is much like a setting is taken for a slip.
        if near := nearest(name, [other for other in names if other.startswith(prefix)], cutoff=0.8):
            yield f"{name} is not a setting and does nothing; did you mean {near}?"
        elif prefix == "OPTIMCLAW_":
            yield f"{name} is not a setting and does nothing"


def _flatten(table: Mapping[str, object], place: Place, known: Catalogue, folder: Path, layer: Layer) -> None:
    """Put each value of a table into the layer, and a fault for each name that is not known."""
    for key, value in table.items():
        here = (*place, key)
        if option := known.by_place.get(here):
            _take(option, option.in_file, value, False, folder, layer)
        elif (option := known.by_place.get((*place, key.removesuffix(FILE_SUFFIX)))) and option.is_secret:
            if option.place in layer.values or option.place[-1] in table:
                layer.faults.append(Fault(option.in_file, f"and {key} are both set; allowed: one of them"))
            _take(option, f"{option.in_file}{FILE_SUFFIX}", value, True, folder, layer)
        elif _is_absent(here, known):
            layer.warnings.append(f"[{'.'.join(here)}] belongs to a plug-in that is not loaded, and does nothing")
        elif not _is_table(here, known):
            layer.faults.append(Fault(_in_file(here), f"no such {_kind(value)}{_hint(here, known)}"))
        elif isinstance(value, dict):
            _flatten(value, here, known, folder, layer)
        else:
            layer.faults.append(Fault(_in_file(here), f"allowed: a table, [{'.'.join(here)}]"))


def _take(option: Option, name: str, value: object, is_path: bool, folder: Path, layer: Layer) -> None:
    """Put one value into the layer; an empty text is none; of a secret's file the content counts."""
    value = value.strip() if isinstance(value, str) else value
    if value == "":
        return
    if is_path:
        text, problem = _read(folder / Path(str(value)).expanduser())
        value = text.strip()
        if problem or not value:
            layer.faults.append(Fault(name, problem or "the file is empty"))
            return
    layer.values[option.place] = Given(value, name)


def _read(path: Path) -> tuple[str, str]:
    """The text of a file, or "" and what is wrong with it."""
    try:
        return path.read_text("utf-8"), ""
    except OSError as error:
        return "", f"the file cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        return "", "the file is not UTF-8 text"


def _is_table(place: Place, known: Catalogue) -> bool:
    return any(table[: len(place)] == place for table in known.models)


def _is_absent(place: Place, known: Catalogue) -> bool:
    return len(place) == 2 and place[0] in ("channels", "llm") and place[1] in known.absent


def _kind(value: object) -> str:
    return "section" if isinstance(value, dict) else "setting"


def _in_file(place: Place) -> str:
    table, key = place[:-1], place[-1]
    return f"[{'.'.join(table)}] {key}" if table else f"{key} (in config.toml)"


def _hint(place: Place, known: Catalogue) -> str:
    """The known name most like an unknown one: in the same table, or as the variable it may have been taken for."""
    table, key = place[:-1], place[-1]
    siblings = [
        other[len(table)] for other in (*known.by_place, *known.models) if other[: len(table)] == table != other
    ]
    if option := known.by_env.get(key.upper()):
        return f"; did you mean {option.in_file}?"
    if near := nearest(key, siblings):
        return f"; did you mean {near}?"
    if near := nearest(key.upper(), known.by_env):
        return f"; did you mean {known.by_env[near].in_file}?"
    return ""
