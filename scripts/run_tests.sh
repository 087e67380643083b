#!/usr/bin/env bash
# Runs the tests, or those named by the arguments, the same way everywhere: nothing of the caller's environment but
# the search path and TEST_DATABASE_URL gets in, the homes are temporary, and only loopback is reachable (tests/conftest.py).
set -euo pipefail

cd "$(dirname "$0")/.."

workers=2
scratch=$(mktemp -d "${TMPDIR:-/tmp}/optimclaw-tests.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/user" "$scratch/home" "$scratch/tmp"

env -i \
    PATH="$PATH" \
    HOME="$scratch/user" \
    OPTIMCLAW_HOME="$scratch/home" \
    TMPDIR="$scratch/tmp" \
    TERM="${TERM:-dumb}" \
    TZ=UTC \
    LANG=C.UTF-8 \
    PYTHONHASHSEED=0 \
    ${CI:+CI="$CI"} \
    ${TEST_DATABASE_URL:+TEST_DATABASE_URL="$TEST_DATABASE_URL"} \
    "$PWD/.venv/bin/python" -m pytest -n "$workers" "$@"
