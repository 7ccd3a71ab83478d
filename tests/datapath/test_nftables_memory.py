"""Memory that libnftables uses for thousands of elements is freed after each transaction."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.root]

_MOST = 4 << 20
_FILLING = """
from tarmac.datapath.linux.nftables import Nftables, Table

def resident():
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("RssAnon"))

rules, keys = Nftables(), ", ".join(f"10.{n >> 8}.{n & 255}.1 . tcp . {n + 1} : {n + 1}" for n in range(10_000))
body = f"map m {{ typeof ip saddr . meta l4proto . th dport : ct mark; elements = {{ {keys} }} }}\\n"
rules.ensure([Table("inet", "small", "map m { typeof ip saddr : ct mark; }\\n")])
before = resident()
for name in ("one", "two"):
    rules.ensure([Table("inet", name, body)])
    assert len(rules.listing("inet", name)) > 1
print(resident() - before)
"""


def test_an_agent_is_as_small_after_a_large_transaction_as_before() -> None:
    command = ["unshare", "--net", sys.executable, "-c", _FILLING]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
    assert int(done.stdout) < _MOST
