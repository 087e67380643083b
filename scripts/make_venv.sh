#!/usr/bin/env bash
# Creates the virtual environment named by the first argument with the first Python that is new enough.
set -euo pipefail

venv=$1

for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "Creating $venv with $("$candidate" --version) ..."
        if "$candidate" -m venv --clear "$venv" >/dev/null && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
            exit 0
        fi
        rm -rf "$venv"
        echo "error: $candidate cannot create a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2
        exit 1
    fi
done

echo "error: no Python 3.11 or newer found; install one, or name it: make PYTHON=/path/to/python3" >&2
exit 1
