"""The catalogue of settings: each one's variable, its place in the file, and what it may be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from types import UnionType
from typing import Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from config.fields import Allowed, Named
from config.settings import SECTIONS, AccessSettings, Extension, Section, WebSettings

Place = tuple[str, ...]
"""The tables of the file from the outside in, and for one setting its key at the end."""

FILE_SUFFIX = "_file"


@dataclass(frozen=True, slots=True)
class Extensions:
    """The settings that channels and providers bring along, by their names.

    `absent`: plug-ins that are installed and left out, and the channels and providers of theirs that are known of.
    """

    channels: Mapping[str, type[AccessSettings]]
    providers: Mapping[str, type[Extension]]
    absent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Option:
    """One setting."""

    env: str
    place: Place
    field: str
    allowed: str
    is_secret: bool

    @property
    def in_file(self) -> str:
        """Its name in the file, for people."""
        return f"[{'.'.join(self.place[:-1])}] {self.place[-1]}"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All settings, by place and by variable, and the model of each table."""

    models: Mapping[Place, type[Section]]
    by_place: Mapping[Place, Option]
    by_env: Mapping[str, Option]
    absent: frozenset[str] = frozenset()

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What the variables' names begin with."""
        return tuple({"OPTIMCLAW_"} | {env[: env.index("_") + 1] for env in self.by_env})

    def options_of(self, table: Place) -> Iterator[Option]:
        """The settings of one table."""
        return (option for place, option in self.by_place.items() if place[:-1] == table)


def catalogue(extensions: Extensions) -> Catalogue:
    """The settings of the program and of its extensions."""
    models: dict[Place, type[Section]] = {(name,): model for name, model in SECTIONS.items()}
    models |= {("llm", name): model for name, model in extensions.providers.items()}
    models |= {("channels", name): model for name, model in extensions.channels.items()}
    options = [option for table, model in models.items() for option in _options(table, model)]
    by_place = {option.place: option for option in options}
    return Catalogue(models, by_place, {option.env: option for option in options}, extensions.absent)


def nearest(word: str, known: Collection[str], *, cutoff: float = 0.6) -> str | None:
    """The known word most like this one, if any is like it."""
    return next(iter(get_close_matches(word, known, n=1, cutoff=cutoff)), None)


def _options(table: Place, model: type[Section]) -> Iterator[Option]:
    for name, field in model.model_fields.items():
        if model is WebSettings and name in WebSettings.derived:
            continue
        named = next((item for item in field.metadata if isinstance(item, Named)), Named())
        key = named.key or name
        env = named.env or _prefix(table) + key.upper()
        yield Option(env, (*table, key), name, _allowed(field), SecretStr in _types(field.annotation))


def _prefix(table: Place) -> str:
    return f"{table[-1].upper()}_"


def _allowed(field: FieldInfo) -> str:
    """What a field may be, in words that complete "allowed: ..."."""
    metadata = [*field.metadata, *_metadata(field.annotation)]
    if said := next((item.text for item in metadata if isinstance(item, Allowed)), None):
        return said
    types = _types(field.annotation)
    if words := next((kind for kind in types if issubclass(kind, StrEnum)), None):
        return ", ".join(words)
    if bool in types:
        return "true, false"
    if not types.isdisjoint({int, float, Decimal}):
        low = next((item.ge for item in metadata if isinstance(item, Ge)), None)
        high = next((item.le for item in metadata if isinstance(item, Le)), None)
        kind = "a whole number" if int in types else "a number"
        return f"{kind} from {low} to {high}" if high is not None else f"{kind}, {low} or more"
    return "a text"


def _types(annotation: object) -> frozenset[type]:
    """The plain types of an annotation, without `Annotated` and `None`."""
    if get_origin(annotation) in (Union, UnionType):
        return frozenset().union(*(_types(part) for part in get_args(annotation)))
    if hasattr(annotation, "__metadata__"):
        return _types(get_args(annotation)[0])
    return frozenset({annotation}) if isinstance(annotation, type) and annotation is not type(None) else frozenset()


def _metadata(annotation: object) -> Iterator[object]:
    """What `Annotated` says inside a union: pydantic lifts only the outermost."""
    for item in getattr(annotation, "__metadata__", ()):
        yield from getattr(item, "metadata", ())
        yield item
    for part in get_args(annotation):
        if part is not None and not isinstance(part, type):
            yield from _metadata(part)
