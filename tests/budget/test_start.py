"""The server starts without what most servers never use: each of these costs tens of milliseconds and megabytes."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNUSED = ("aiohttp", "grpc", "google.protobuf", "yaml")


@pytest.mark.parametrize("module", ["tarmac.apps.main", "tarmac.apps.server"])
def test_what_is_not_needed_is_not_loaded(module: str) -> None:
    program = f"import sys, {module}; print(*(set(sys.modules) & set({UNUSED!r})))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == ""
