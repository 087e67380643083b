"""Who may import whom, where import-linter's contracts in pyproject.toml cannot say it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
OURS = ("agent", "bot", "channels", "config")

OWNERS = {
    "telegram": ("channels.telegram",),
    "slack_bolt": ("channels.slack",),
    "slack_sdk": ("channels.slack",),
    "discord": ("channels.discord",),
    "anthropic": ("agent.llm",),
    "openai": ("agent.llm",),
    "xllamacpp": ("agent.llm",),
    "sqlalchemy": ("agent.store",),
    "alembic": ("agent.store",),
    "aiosqlite": ("agent.store",),
    "procrastinate": ("agent.turns.procrastinate",),
    "pypdf": ("agent.media.extract",),
    "croniter": ("agent.routines",),
    "cryptography": ("agent.credentials",),
    "mcp": ("agent.mcp",),
    "mcp_types": ("agent.mcp",),
    "jsonschema": ("agent.mcp",),
    "keyring": (),
}
"""Each SDK, and what the names of the modules that import it begin with."""

MAY_SEE = {
    "agent": {
        "channels": {"channels.base", "channels.files", "channels.message", "channels.text"},
        "config": {"config.fields", "config.hosts", "config.masking", "config.paths", "config.settings"},
    },
    "channels": {"config": {"config.fields", "config.paths", "config.settings"}},
}
"""For each package, the modules of another that it may name."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*OURS, include_external_packages=True, cache_dir=None)


@pytest.mark.parametrize("sdk", OWNERS)
def test_sdk_is_imported_by_its_owner_alone(graph: grimp.ImportGraph, sdk: str) -> None:
    importers = graph.find_modules_that_directly_import(sdk) if sdk in graph.modules else set()

    assert {name for name in importers if not name.startswith(OWNERS[sdk])} == set()


@pytest.mark.parametrize(("package", "other"), [(package, other) for package in MAY_SEE for other in MAY_SEE[package]])
def test_package_sees_only_the_public_modules_of_another(graph: grimp.ImportGraph, package: str, other: str) -> None:
    seen = {
        (importer, imported)
        for importer in graph.modules
        if importer.split(".")[0] == package
        for imported in graph.find_modules_directly_imported_by(importer)
        if imported.split(".")[0] == other
    }

    assert {pair for pair in seen if pair[1] not in MAY_SEE[package][other]} == set()


def test_nothing_imports_the_tests(graph: grimp.ImportGraph) -> None:
    assert "tests" not in graph.modules


def test_import_contracts_have_no_exceptions_and_name_each_package_of_the_agent(graph: grimp.ImportGraph) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

    assert not any("ignore_imports" in contract for contract in contracts)
    named = {name.strip(" ()") for layer in contracts[1]["layers"] for name in layer.split(":")}
    unnamed = {name for name in graph.find_children("agent") if not any(f"{n}.".startswith(f"{name}.") for n in named)}
    assert unnamed == set()


def test_each_folder_of_tests_is_a_package_so_that_equal_file_names_do_not_clash() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("*.py")}

    assert {str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()} == set()
