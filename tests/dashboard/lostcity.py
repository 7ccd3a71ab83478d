"""A city with one node that nobody runs: what is heard of it is what a test says for it."""

from __future__ import annotations

import json

from tests.dashboard.views import kubectl
from tests.support.tarmac_process import TarmacProcess

_CITY = "topology.datum.net/city-code"
_PLACE = {
    "apiVersion": "networking.datumapis.com/v1alpha",
    "kind": "Location",
    "metadata": {"name": "fra"},
    "spec": {"locationClassName": "self-managed", "provider": {"simulated": {}}, "topology": {_CITY: "FRA"}},
}
_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "fra-0", "labels": {_CITY: "FRA", "topology.datum.net/location": "fra"}},
}


def found(planet: TarmacProcess) -> None:
    """Make it."""
    objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": [_PLACE, _NODE]})
    kubectl(planet, "create", "-f", "-", stdin=objects)


def heard(planet: TarmacProcess, status: str) -> None:
    """A node that nobody runs says what somebody says for it."""
    condition = {"type": "Ready", "status": status, "reason": "Said", "message": "said by a test"}
    patch = json.dumps({"status": {"conditions": [condition]}})
    kubectl(planet, "patch", "node", "fra-0", "--subresource=status", "--type=strategic", "-p", patch)


def forget(planet: TarmacProcess) -> None:
    """It is gone, as if it had never been."""
    kubectl(planet, "delete", "node/fra-0", "location.networking.datumapis.com/fra")
