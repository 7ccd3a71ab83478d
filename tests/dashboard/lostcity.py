"""A city with one node without an agent: a test writes its status."""

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
    """Create the city."""
    objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": [_PLACE, _NODE]})
    kubectl(planet, "create", "-f", "-", stdin=objects)


def heard(planet: TarmacProcess, status: str) -> None:
    """Write the Ready status of the node without an agent."""
    condition = {"type": "Ready", "status": status, "reason": "Said", "message": "said by a test"}
    patch = json.dumps({"status": {"conditions": [condition]}})
    kubectl(planet, "patch", "node", "fra-0", "--subresource=status", "--type=strategic", "-p", patch)


def forget(planet: TarmacProcess) -> None:
    """Delete the city and its node."""
    kubectl(planet, "delete", "node/fra-0", "location.networking.datumapis.com/fra")
