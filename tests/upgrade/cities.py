"""A small Workload in some cities that runs while versions change or a store is restored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.support.containerd import BUSYBOX


def location(city: str) -> dict[str, Any]:
    """Return a Location for nodes."""
    topology = {"topology.datum.net/city-code": city}
    spec = {"locationClassName": "self-managed", "topology": topology, "provider": {"nodes": {}}}
    kind = {"apiVersion": "networking.datumapis.com/v1alpha", "kind": "Location"}
    return {**kind, "metadata": {"name": city.lower()}, "spec": spec}


def workload(cities: Iterable[str], replicas: int = 1) -> dict[str, Any]:
    """Return a Workload of instances that wait, so many in each city."""
    waits = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"]
    resources = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "50m", "memory": "32Mi"}}
    container = {"name": "main", "image": BUSYBOX, "command": waits}
    runtime = {"resources": resources, "sandbox": {"containers": [container]}}
    template = {"spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}}
    placement = {"name": "all", "cityCodes": list(cities), "scaleSettings": {"minReplicas": replicas}}
    kind = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload", "metadata": {"name": "web"}}
    return {**kind, "spec": {"template": template, "placements": [placement]}}
