"""Every requirement of the KEP has tests with its name: `test_e1_…`, or `test_l3_a1_…` for several."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from tests.agent.dns import test_names_of_external_services as names
from tests.agent.egress import test_compiling as compiling
from tests.agent.egress import test_egress_reconciler as keeping
from tests.api.egress import test_external_service_rules as rules
from tests.controllers import test_external_services as controllers
from tests.datapath import test_egress_contract as contract
from tests.datapath import test_egress_packets as packets
from tests.decide.egress import test_relay_conditions as relays
from tests.security import test_egress_attacks as attacks
from tests.security import test_egress_rights as rights

LINES = {
    "e1": (contract, packets),
    "e2": (contract,),
    "e3": (contract, packets),
    "e4": (names,),
    "i1": (contract, packets),
    "i2": (packets,),
    "i3": (contract,),
    "l1": (contract, controllers),
    "l2": (contract, controllers),
    "l3": (rights, attacks),
    "l4": (rules, compiling),
    "l5": (keeping, controllers, relays),
    "g1": (contract,),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_has_its_tests(line: str) -> None:
    for module in LINES[line]:
        assert line in _lines_of(module), f"{module.__name__} has no test of {line.upper()}"


def _lines_of(module: ModuleType) -> set[str]:
    found = (re.match(r"test_((?:[a-z]\d+_)+)", name) for name in vars(module))
    return {line for each in found if each is not None for line in each[1].rstrip("_").split("_")}
