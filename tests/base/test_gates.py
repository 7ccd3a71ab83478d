"""Feature gates: parsing, and reports of gates that have no effect in a component."""

from __future__ import annotations

import io

import pytest

from tarmac.base.gates import REGISTRY, BadGate, FeatureGate, FeatureGates, merge_gates
from tarmac.base.log import configure

SIZING = FeatureGate("KubeletSizingProviders", "alpha", False, frozenset({"agent"}), ("KubeletSizingProvider",))
CLASSES = FeatureGate("ClassResources", "beta", True, frozenset({"agent", "server"}))
OLD = FeatureGate("AlwaysThere", "stable", True, frozenset({"agent"}))
GATES = (SIZING, CLASSES, OLD)


def agent(**stated: bool) -> FeatureGates:
    return FeatureGates("agent", stated, GATES)


def test_a_gate_that_nobody_sets_is_what_it_is_by_default() -> None:
    assert not agent().enabled("KubeletSizingProviders")
    assert agent().enabled("ClassResources")


def test_a_gate_is_set_by_its_name_or_by_its_alias() -> None:
    assert agent(KubeletSizingProviders=True).enabled("KubeletSizingProviders")
    assert agent(KubeletSizingProvider=True).enabled("KubeletSizingProviders")
    assert not agent(ClassResources=False).enabled("ClassResources")


def test_name_and_alias_must_not_contradict_each_other() -> None:
    assert agent(KubeletSizingProviders=True, KubeletSizingProvider=True).enabled("KubeletSizingProviders")
    with pytest.raises(BadGate, match="KubeletSizingProviders and KubeletSizingProvider are one feature gate"):
        agent(KubeletSizingProviders=True, KubeletSizingProvider=False)


@pytest.mark.parametrize("name", ["ClassResource", "classresources", "ClasResourcs", "ClassRezources"])
def test_a_typo_is_refused_with_the_name_that_was_meant(name: str) -> None:
    with pytest.raises(BadGate, match=f"there is no feature gate {name}; did you mean ClassResources"):
        agent(**{name: True})


def test_a_gate_of_somebody_else_is_one_warning() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    agent(GracefulNodeShutdown=True, MemoryQoS=True)
    FeatureGates("controllers", {"ClassResources": True}, GATES)
    lines = stream.getvalue().splitlines()
    assert [line.rpartition("gate=")[2] for line in lines] == ["GracefulNodeShutdown", "MemoryQoS", "ClassResources"]
    assert all("feature gate has no effect here" in line for line in lines)


def test_a_stable_gate_stays_as_it_is() -> None:
    assert agent(AlwaysThere=True).enabled("AlwaysThere")
    with pytest.raises(BadGate, match="cannot set feature gate AlwaysThere to false, feature is locked to true"):
        agent(AlwaysThere=False)


def test_no_gate_of_the_registry_can_be_mistaken_for_another() -> None:
    names = [name for gate in REGISTRY for name in (gate.name, *gate.aliases)]
    assert len(names) == len({name.lower() for name in names})
    assert all(gate.default for gate in REGISTRY if gate.stage == "stable")


def test_several_parts_in_one_process_have_the_gates_of_all() -> None:
    both = FeatureGates(("server", "agent"), {"KubeletSizingProvider": True}, GATES)
    assert both.enabled("KubeletSizingProviders")
    assert both.settings_of("server") == {"ClassResources": True}
    assert both.settings_of("agent") == {"KubeletSizingProviders": True, "ClassResources": True, "AlwaysThere": True}


def test_a_default_of_ones_own_is_one_that_can_be_overruled_by_any_name() -> None:
    usual = {"KubeletSizingProviders": True}
    assert FeatureGates("agent", {}, GATES, usual=usual).enabled("KubeletSizingProviders")
    assert not FeatureGates("agent", {"KubeletSizingProvider": False}, GATES, usual=usual).settings_of("agent")[
        "KubeletSizingProviders"
    ]


@pytest.mark.parametrize(
    ("file", "flag"),
    [("KubeletSizingProvider", "KubeletSizingProviders"), ("KubeletSizingProviders", "KubeletSizingProvider")],
    ids=["alias in the file", "alias in the flag"],
)
def test_the_flag_comes_over_the_file_gate_by_gate(file: str, flag: str) -> None:
    settings = {file: False, "ClassResources": False, "Other": True}
    assert merge_gates(settings, {flag: True}, GATES) == {"ClassResources": False, "Other": True, flag: True}
