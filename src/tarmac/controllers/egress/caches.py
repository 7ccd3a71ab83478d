"""Caches, indexes and clients shared by the loops of external services."""

from __future__ import annotations

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import Forwarder, Gateway, GatewayRule
from tarmac.api.egress.names import LABEL_EXTERNAL_SERVICE, LABEL_NAMESPACE
from tarmac.api.egress.sourceip import SourceIPClaim
from tarmac.client.cache import Item, by_namespace
from tarmac.client.overlaycache import ReadYourWritesCache
from tarmac.client.targets.typed import (
    EXTERNAL_SERVICES,
    FORWARDERS,
    GATEWAYS,
    SOURCE_IP_CLAIMS,
    SOURCE_IP_CLASSES,
    SOURCE_IPS,
)
from tarmac.client.targets.untyped import NAMESPACES, NODES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.egress.objectindexes import (
    AddressIdentities,
    AddressOwners,
    DialledAddresses,
    TransitNumbers,
)
from tarmac.controllers.nodeviews import NodeViews
from tarmac.decide.egress.claims import addresses_named, holders
from tarmac.decide.egress.views import age

BY_CLASS, BY_CLAIM, BY_ADDRESS, BY_OWNER = "class", "claim", "address", "owner"
BY_HOLDER, BY_NAMESPACE = "holder", "namespace"
MANAGER = "tarmac-external"


def class_of(item: Item[SourceIPClaim]) -> tuple[str, ...]:
    """Index: claims by their class."""
    return (item.object.spec.class_name,)


def claims_named(item: Item[ExternalService]) -> list[str]:
    """Index: ExternalServices by the claims they name, as namespace/name."""
    sources = item.object.spec.sources
    named = {source.source_ip_claim.name for source in sources if source.source_ip_claim is not None}
    return [f"{item.metadata.namespace}/{each}" for each in sorted(named)]


def addresses_of(item: Item[ExternalService]) -> list[str]:
    """Index: ExternalServices by the addresses they name, as namespace/address."""
    return [f"{item.metadata.namespace}/{each}" for each in sorted(addresses_named(item.object))]


def owner_of_forwarder(item: Item[Forwarder]) -> tuple[str, ...]:
    """Index: Forwarders by their ExternalService (namespace/name), read from their labels."""
    labels = item.metadata.labels or {}
    return (f"{labels.get(LABEL_NAMESPACE, '')}/{labels.get(LABEL_EXTERNAL_SERVICE, '')}",)


def owner_of_rule(rule: GatewayRule) -> str:
    """Return the ExternalService (namespace/name) that owns a rule, read from the name of its Forwarder."""
    name = rule.forwarder.name if rule.forwarder is not None else ""
    namespace, _, rest = name.partition(".")
    return f"{namespace}/{rest.partition('.')[0]}"


def owners_of_gateway(item: Item[Gateway]) -> list[str]:
    """Index: Gateways by the ExternalServices (namespace/name) with rules in them."""
    spec = item.object.spec
    return sorted({owner_of_rule(rule) for rule in (*spec.egress_rules, *spec.ingress_rules)})


class EgressCaches:
    """Shared caches and clients."""

    def __init__(self, context: ControllerContext) -> None:
        informers, client = context.informers, context.client
        self.clock, self.recorder = client.clock, context.recorder
        self.classes = informers.informer(SOURCE_IP_CLASSES)
        self.claims = informers.informer(SOURCE_IP_CLAIMS)
        self.claims.add_index(BY_CLASS, class_of)
        self.services = informers.informer(EXTERNAL_SERVICES)
        self.services.add_index(BY_CLAIM, claims_named)
        self.services.add_index(BY_ADDRESS, addresses_of)
        self.namespaces = informers.informer(NAMESPACES)
        self.nodes = informers.informer(NODES)
        self.known_source_ips = informers.informer(SOURCE_IPS)
        self.known_source_ips.add_index(BY_CLASS, lambda item: (item.object.spec.class_name,))
        self.known_gateways = informers.informer(GATEWAYS)
        self.known_forwarders = informers.informer(FORWARDERS)
        self.known_gateways.add_index(BY_OWNER, owners_of_gateway)
        self.known_forwarders.add_index(BY_OWNER, owner_of_forwarder)
        self.transit_numbers, self.dialled_addresses, self.address_owners, self.node_views = (
            TransitNumbers(),
            DialledAddresses(),
            AddressOwners(),
            NodeViews(),
        )
        self.identities = AddressIdentities()
        # Before the informers start: numbers in use must be known before the first new one is chosen.
        self.known_source_ips.on_change(self.identities.changed)
        self.known_source_ips.add_index(BY_HOLDER, lambda item: {each.namespace for each in holders(item.object)})
        self.claims.add_index(BY_NAMESPACE, by_namespace)
        self.known_forwarders.on_change(self.transit_numbers.changed)
        self.services.on_change(self.dialled_addresses.changed)
        self.known_gateways.on_change(self.address_owners.changed)
        self.nodes.on_change(self.node_views.changed)
        self.source_ips = ReadYourWritesCache(self.known_source_ips)
        self.gateways = ReadYourWritesCache(self.known_gateways)
        self.forwarders = ReadYourWritesCache(self.known_forwarders)
        self.namespace_resource = client.resource(NAMESPACES)
        self.class_resource = client.resource(SOURCE_IP_CLASSES)
        self.claim_resource = client.resource(SOURCE_IP_CLAIMS)
        self.source_ip_resource = client.resource(SOURCE_IPS)
        self.service_resource = client.resource(EXTERNAL_SERVICES)
        self.gateway_resource = client.resource(GATEWAYS)
        self.forwarder_resource = client.resource(FORWARDERS)

    def uid_of(self, namespace: str) -> str:
        """Return the uid of a namespace; empty if it does not exist."""
        found = self.namespaces.get(namespace)
        return "" if found is None else found["metadata"]["uid"]

    def users(self, claim: SourceIPClaim) -> list[ExternalService]:
        """Return the ExternalServices that name a claim or an address that it holds, the oldest first."""
        own, status = claim.metadata, claim.status
        found = {item.key: item.object for item in self.services.indexed(BY_CLAIM, f"{own.namespace}/{own.name}")}
        for address in status.addresses if status is not None else ():
            for item in self.services.indexed(BY_ADDRESS, f"{own.namespace}/{address}"):
                found[item.key] = item.object
        return sorted(found.values(), key=age)
