"""Processes do not import unused modules, which cost tens of milliseconds and megabytes each."""

from __future__ import annotations

import subprocess
import sys

import pytest

SERVER = ("aiohttp", "grpc", "google.protobuf", "yaml")
AGENT = ("aiohttp", "apsw", "cryptography", "grpc")
ETCD = ("aiohttp", "apsw", "grpc", "yaml")


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("tarmac.apps.main", SERVER),
        ("tarmac.apps.server", SERVER),
        ("tarmac.apps.agent", AGENT),
        ("tarmac.store.etcd", ETCD),
    ],
)
def test_unused_modules_are_not_loaded(module: str, unused: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*(set(sys.modules) & set({unused!r})))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == ""
