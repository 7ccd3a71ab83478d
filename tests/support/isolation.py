"""Keeps traffic of the cities that tests start on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

_RULES = """
    table inet {table} {{
        chain leaving {{
            type filter hook forward priority -10; policy accept;
            iifname "tm*" oifname != "tm*" reject with icmpx no-route
        }}
    }}
"""


@pytest.fixture(scope="session", autouse=True)
def cities_without_the_internet() -> Iterator[None]:
    """Reject packets that cities of `tarmac up` send beyond this machine, as a machine without a route does."""
    if os.geteuid() != 0 or not shutil.which("nft"):
        yield  # no test starts such cities
        return
    table = f"tarmac-tests-{os.getpid()}"
    _nft(_RULES.format(table=table))
    try:
        yield
    finally:
        _nft(f"delete table inet {table}")


def _nft(commands: str) -> None:
    subprocess.run(["nft", "-f", "-"], input=commands, text=True, check=True, capture_output=True, timeout=20)
