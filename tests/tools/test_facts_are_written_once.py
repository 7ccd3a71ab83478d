"""Facts that several parts share are defined in one module, and the parts import it."""

from __future__ import annotations

import re

import pytest

from tools.cache import ROOT
from tools.house_rules import tracked


@pytest.mark.parametrize(
    ("fact", "home"),
    [
        (r'"(Succeeded|Failed)",\s*"(Succeeded|Failed)"', "api/kubernetes/core/pods/phases.py"),
        (r'"net\.ipv4\.ip_unprivileged_port_start"', "api/kubernetes/core/pods/security.py"),
        (r"^Amounts = ", "decide/amounts.py"),
        (r"= (dict|Mapping)\[str, Quantity\]$", "api/shared.py"),
        (r"^class Histogram\b", "base/metrics.py"),
        (r'RequestInfo\("use"', "server/admission/rights.py"),
        (r'\.type == "\w+" and \w+\.status == "True"', None),
        (r'"exceeded quota: " in', "client/errors.py"),
    ],
)
def test_a_fact_has_one_home(fact: str, home: str | None) -> None:
    found = [path for path in tracked("src/tarmac/*.py") if re.search(fact, path.read_text(), re.MULTILINE)]
    assert [str(path.relative_to(ROOT / "src/tarmac")) for path in found] == ([home] if home else [])
