"""Checks that a new instance can be attached to a template's networks."""

from __future__ import annotations

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.decide import reasons
from tarmac.decide.addresses import overlap
from tarmac.decide.remedies.usualchanges import usual_change
from tarmac.decide.snapshot.snapshot import NETWORKS, Snapshot
from tarmac.decide.verdict import Refusal

_RULE = "network"


def unusable_networks(snapshot: Snapshot, namespace: str, template: InstanceTemplate) -> Refusal | None:
    """Refuse networks that do not exist, else those being deleted, else two that overlap; None if all are usable."""
    wanted = [nic.network for nic in template.spec.network_interfaces]
    keys = dict.fromkeys(f"{network.namespace or namespace}/{network.name}" for network in wanted)
    networks = {key: NETWORKS.get(snapshot, key) for key in keys}
    missing = ", ".join(key for key, network in networks.items() if network is None)
    if missing:
        message = f"Unable to find networks: {missing}"
        return Refusal(reasons.NETWORK_NOT_FOUND, message, "", _RULE, f"Create Network {missing}.")
    going = ", ".join(key for key, network in networks.items() if network and network.metadata.deletion_timestamp)
    if going:
        change = usual_change(reasons.NETWORK_IN_USE)
        return Refusal(reasons.NETWORK_IN_USE, f"Network {going} is being deleted.", "", _RULE, change)
    clash = overlap(namespace, template.spec.network_interfaces, networks.get)
    return clash.refusal if clash is not None else None
