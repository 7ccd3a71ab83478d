"""A world of plain values for decisions about ExternalServices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.names import Address
from tarmac.api.egress.nodefacts import NodeFacts, OutsideInterface
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.decide.egress.claims import allows, is_held_by
from tarmac.decide.egress.views import EgressPod, EndpointView, PortView, ServiceView, age
from tarmac.decide.pooled.nodeview import NodeView
from tests.decide.egress.making import address_class, bound, source_ip

GATEWAY = {"submariner.io/gateway": "true"}


def node(name: str, number: int = 1, *, encryption: str = "kernel", **more: object) -> NodeView:
    """Return a Ready gateway in the city of its name's prefix, on the segment 192.0.2.0/24."""
    facts = NodeFacts([OutsideInterface("outside0", [f"192.0.2.{200 + number}/24"])], encryption, True, f"key-{name}")  # type: ignore[arg-type]
    city = name.partition("-")[0]
    plain = {"address": f"198.18.0.{number}", "city": city, "location": city, "labels": GATEWAY, "facts": facts}
    return NodeView(name, **{**plain, **more})  # type: ignore[arg-type]


def web(*pods: str, namespace: str = "team", name: str = "web", **more: object) -> ServiceView:
    """Return a Service on port 80 with endpoints of these pods on port 8080."""
    ports = (PortView("http", "TCP", 8080),)
    endpoints = tuple(EndpointView(f"10.128.0.{n}", pod, f"uid-{pod}", f"{namespace}/default", ports=ports)
                      for n, pod in enumerate(pods, 2))  # fmt: skip
    plain = {"ports": (PortView("http", "TCP", 80),), "endpoints": endpoints}
    return ServiceView(namespace, name, **{**plain, **more})  # type: ignore[arg-type]


@dataclass
class Plain:
    """The team's Service `web` with two pods on dfw-0, its claim `c` that holds 192.0.2.5, and two gateways."""

    services: dict[str, ServiceView] = field(default_factory=lambda: {"team/web": web("a", "b")})
    pods: dict[str, EgressPod] = field(default_factory=dict[str, EgressPod])
    nodes: dict[str, NodeView] = field(
        default_factory=lambda: {n: node(n, i) for i, n in enumerate(("dfw-0", "dfw-1"))}
    )
    claims: dict[str, SourceIPClaim] = field(default_factory=lambda: {"team/c": bound("c", "192.0.2.5")})
    source_ips: dict[str, SourceIP] = field(default_factory=dict[str, SourceIP])
    classes: dict[str, SourceIPClass] = field(
        default_factory=lambda: {"partner": address_class(inbound={"policy": "FromTarget"})}
    )
    granted: dict[str, str] = field(default_factory=dict[str, str])  # key of a Service -> its annotation
    looked_into: list[str] = field(default_factory=list[str])  # keys of Services with endpoints that were read
    locations: set[str] = field(default_factory=lambda: {"dfw", "ams"})
    others: list[ExternalService] = field(default_factory=list[ExternalService])
    held: dict[Address, str] = field(default_factory=dict[Address, str])

    looked_at: list[str] = field(default_factory=list[str])  # the Networks that a target was compared with

    def __post_init__(self) -> None:
        for name, number in (("a", 2), ("b", 3)):
            self.put_pod(name, number)
        self.source_ips.setdefault("192.0.2.5", source_ip("192.0.2.5", self.claims["team/c"]))

    def put_pod(self, name: str, number: int, on: str = "dfw-0", namespace: str = "team") -> None:
        addresses = {f"{namespace}/default": [f"10.128.0.{number}", f"fd20::{number}"]}
        self.pods[f"{namespace}/{name}"] = EgressPod(f"uid-{name}", on, addresses=addresses)

    def allowed_from(self, key: str) -> str | None:
        return self.granted.get(key, "") if key in self.services else None

    def service(self, key: str) -> ServiceView | None:
        self.looked_into.append(key)
        return self.services.get(key)

    def pod(self, key: str) -> EgressPod | None:
        return self.pods.get(key)

    def node(self, name: str) -> NodeView | None:
        return self.nodes.get(name)

    def claim(self, key: str) -> SourceIPClaim | None:
        return self.claims.get(key)

    def claim_holding(self, namespace: str, address: str) -> SourceIPClaim | None:
        held = self.source_ips.get(address)
        mine = [each for each in self.claims.values() if each.metadata.namespace == namespace]
        return next((each for each in mine if held is not None and is_held_by(held, each)), None)

    def source_ip(self, name: str) -> SourceIP | None:
        return self.source_ips.get(name)

    def address_class(self, name: str) -> SourceIPClass | None:
        return self.classes.get(name)

    def authorized(self, class_name: str, namespace: str) -> bool:
        offered = self.classes.get(class_name)
        return offered is None or allows(offered.spec, namespace, {})

    def has_location(self, name: str) -> bool:
        return name in self.locations

    def users(self, source_ip: str) -> Sequence[ExternalService]:
        return sorted(self.others, key=age)

    def candidates(self, source_ip: str) -> Sequence[NodeView]:
        return [each for each in self.nodes.values() if each.labels == GATEWAY]

    def inside(self, target: Address, networks: Sequence[str], namespace: str) -> str | None:
        self.looked_at = [*networks, f"{namespace}/*"]
        return self.held.get(target)
