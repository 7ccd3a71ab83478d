"""A cordoned owner waits up to a minute until its partner knows its connections; then the address moves anyway."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tarmac.api.declare import encode
from tarmac.api.egress.names import NAMESPACE
from tarmac.api.egress.nodefacts import NodeFacts, OutsideInterface, write_facts
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339
from tarmac.decide.egress.candidates import HANDOVER_TIMEOUT
from tarmac.decide.egress.reading import node_view
from tarmac.decide.egress.snapshotworld import SnapshotWorld
from tarmac.decide.explain.sourceips import explain_source_ip
from tarmac.decide.nodes import UNSCHEDULABLE
from tarmac.decide.snapshot.egressobjects import GATEWAYS, SOURCE_IP_CLASSES, SOURCE_IPS
from tarmac.decide.snapshot.snapshot import NODES, Objects
from tests.decide.egress.making import address_class, source_ip

ADDRESS, OWNER, OTHER = "192.0.2.5", "dfw-0", "dfw-1"
CORDONED = 1_800_000_000.0


def a_node(number: int, *, cordoned: bool = False, **taint: Any) -> JsonObject:
    facts = NodeFacts([OutsideInterface("eth0", [f"192.0.2.{100 + number}/24"])], "kernel", state_sync=True)
    annotations = {"submariner.io/node-facts": write_facts(facts)}
    labels = {"submariner.io/gateway": "true", "topology.datum.net/city-code": "DFW"}
    taints = [{"key": UNSCHEDULABLE, "effect": "NoSchedule", **taint}] if taint else []
    return {
        "metadata": {"name": f"dfw-{number}", "labels": labels, "annotations": annotations},
        "spec": {"unschedulable": cordoned, "taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def snapshot(now: float, *, others: int = 1, owner: JsonObject | None = None, synced: bool = False) -> Objects:
    """Return objects with a cordoned owner that reports the address, and no sync unless `synced`."""
    own = owner or a_node(0, cordoned=True, timeAdded=rfc3339(CORDONED))
    nodes = {each["metadata"]["name"]: each for each in (own, *(a_node(number + 1) for number in range(others)))}
    entry = {"name": OWNER, "owner": True, "epoch": 3}
    said = [entry | {"syncedWith": OTHER}, {"name": OTHER, "syncedWith": OWNER}] if synced else [entry]
    gateway = {
        "metadata": {"name": ADDRESS, "namespace": NAMESPACE},
        "spec": {"gatewayIP": ADDRESS, "candidates": [{"name": name} for name in nodes]},
        "status": {"nodes": said},
    }
    found: dict[str, dict[str, Any]] = {
        NODES.resource: nodes,
        GATEWAYS.resource: {f"{NAMESPACE}/{ADDRESS}": gateway},
        SOURCE_IPS.resource: {ADDRESS: encode(source_ip(ADDRESS))},
        SOURCE_IP_CLASSES.resource: {"partner": encode(address_class())},
    }
    return Objects(now, {kind: {k: msgspec.json.encode(v) for k, v in all_.items()} for kind, all_ in found.items()})


def line(seen: Objects) -> list[str]:
    return [each.name for each in SnapshotWorld(seen).candidates(ADDRESS)]


def test_an_owner_that_never_reports_its_partner_is_a_candidate_for_a_minute() -> None:
    assert sorted(line(snapshot(CORDONED))) == [OWNER, OTHER]
    assert sorted(line(snapshot(CORDONED + HANDOVER_TIMEOUT - 1))) == [OWNER, OTHER]
    assert line(snapshot(CORDONED + HANDOVER_TIMEOUT)) == [OTHER]


def test_an_owner_whose_partner_knows_its_connections_leaves_at_once() -> None:
    assert line(snapshot(CORDONED, synced=True)) == [OTHER]


def test_the_only_gateway_keeps_the_address_after_that_minute() -> None:
    late = snapshot(CORDONED + 10 * HANDOVER_TIMEOUT, others=0)
    assert line(late) == [OWNER]
    assert SnapshotWorld(late).handover(ADDRESS) is None


@pytest.mark.parametrize(
    ("taint", "wanted"),
    [
        ({}, None),  # the node controller has not set the taint yet
        ({"timeAdded": rfc3339(CORDONED)}, CORDONED),
        ({"value": "by hand"}, 0.0),
        ({"timeAdded": "soon"}, 0.0),
    ],
)
def test_the_minute_begins_with_the_taint_of_the_cordon(taint: JsonObject, wanted: float | None) -> None:
    assert node_view(a_node(0, cordoned=True, **taint)).cordoned_at == wanted
    assert node_view(a_node(0, **taint)).cordoned_at is None, "uncordoned, its taint about to be removed"


def test_an_explanation_names_the_wait_and_its_end() -> None:
    def told(now: float) -> list[str]:
        answer = explain_source_ip(snapshot(now), ADDRESS)
        assert answer is not None
        return [each.message for each in answer.verdicts if each.reason == "OwnerChanging"]

    wanted = f"{OWNER} is cordoned and waits until {OTHER} knows its connections; it moves in 20s at the latest."
    assert told(CORDONED + 40) == [wanted]
    assert told(CORDONED + HANDOVER_TIMEOUT) == []
