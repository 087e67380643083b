from __future__ import annotations

import tomllib

from config.features import NOT_BUILT_YET
from config.options import catalogue
from config.settings import SECTIONS
from config.sources import DEFAULTS
from tests.support import settings_reference
from tests.support.settings import EXTENSIONS


def test_reference_page_is_what_the_models_and_defaults_say() -> None:
    assert settings_reference.PAGE.read_text("utf-8") == settings_reference.render()


def test_every_setting_is_explained() -> None:
    rows = [line.split("|") for line in settings_reference.render().splitlines() if line.startswith("| `")]

    assert [row[1] for row in rows if len(row[-2].strip()) < 8] == []


def test_each_setting_of_the_program_has_its_default_in_default_toml_and_nowhere_else() -> None:
    tables = tomllib.loads(DEFAULTS.read_text("utf-8"))
    del tables["home"]
    written = {(table, key) for table, keys in tables.items() for key in keys}
    known = {place for place in catalogue(EXTENSIONS).by_place if place[0] in SECTIONS and len(place) == 2}
    elsewhere = [
        (model.__name__, name)
        for model in SECTIONS.values()
        for name, field in model.model_fields.items()
        if not field.is_required() and field.default not in (None, False)
    ]

    assert written == known
    assert elsewhere == []


def test_settings_without_effect_yet_are_settings() -> None:
    assert set(catalogue(EXTENSIONS).by_env) >= NOT_BUILT_YET


def test_no_two_settings_share_a_variable() -> None:
    known = catalogue(EXTENSIONS)

    assert len(known.by_env) == len(known.by_place)
