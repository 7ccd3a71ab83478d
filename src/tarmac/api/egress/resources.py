"""The served resources of submariner.io: columns, subresources, rules."""

from __future__ import annotations

from tarmac.api.columns import AGE, NAME, column, condition, join
from tarmac.api.compute.explanations import WHY
from tarmac.api.declare import declare, schema_of
from tarmac.api.egress.addressrules import SourceIPClaimStrategy, SourceIPClassStrategy, SourceIPStrategy
from tarmac.api.egress.connections import CONNECTIONS
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import Forwarder, Gateway
from tarmac.api.egress.names import API_VERSION
from tarmac.api.egress.plans import ExternalPlan
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.api.egress.strategies import ExternalServiceStrategy
from tarmac.api.ownkinds import OwnStrategy
from tarmac.api.resource import Resource, Subresource

PLAN = Subresource("plan", "ExternalPlan", ("create",), *API_VERSION.split("/"), answer=lambda: schema_of(ExternalPlan))

_EXTERNAL_SERVICE_COLUMNS = (
    NAME,
    column("Target", ".spec.targetIP", "Address of the server."),
    column("Ports", ".status.summary.ports", "Ports that Pods dial and ports of the server."),
    column("Sources", ".status.summary.sources", "Sources that work, of all."),
    column("Gateway", ".status.summary.gateway", "Gateway that carries it now."),
    condition("Ready", "Ready", "Whether it works everywhere."),
    AGE,
    join("Address", ".status.addresses[*]", "Addresses that Pods dial.", wide=True),
    condition("Reason", "Ready", "Why it does not work, if so.", field="reason", wide=True),
)
_FORWARDER_COLUMNS = (
    NAME,
    column("Node", ".spec.nodeName", "The node."),
    column("Generation", ".metadata.generation", "Newest rules.", type="integer"),
    column("Applied", ".status.appliedGeneration", "Rules in force.", type="integer"),
    condition("Programmed", "Programmed", "Whether all rules are in force."),
    AGE,
)
_GATEWAY_COLUMNS = (
    NAME,
    column("Address", ".spec.gatewayip", "The SourceIP."),
    join("Candidates", ".spec.candidates[*].name", "Nodes that may carry it, in order."),
    condition("Programmed", "Programmed", "Whether all rules are in force."),
    AGE,
    join("Voters", ".spec.voters[*].name", "Nodes that promise it.", wide=True),
)
_SOURCE_IP_COLUMNS = (
    NAME,
    column("Address", ".spec.address", "The address."),
    column("Class", ".spec.className", "Its class."),
    column("Claim", ".spec.claimRef.name", "The claim that holds it."),
    column("Status", ".status.phase", "State of the address."),
    column("Gateway", ".status.owner.gateway", "The gateway that carries it."),
    AGE,
)
_CLAIM_COLUMNS = (
    NAME,
    column("Class", ".spec.className", "The class it takes from."),
    column("Status", ".status.phase", "State of the claim."),
    join("Addresses", ".status.addresses[*]", "Addresses it holds."),
    AGE,
    condition("In-Use", "InUse", "Whether an ExternalService names it.", wide=True),
    condition("Reason", "Bound", "Why it holds none, if so.", field="reason", wide=True),
)
_CLASS_COLUMNS = (
    NAME,
    column("Sharing", ".spec.sharing", "Whether an address may serve several users."),
    column("Bound", ".status.summary.bound", "Addresses in use.", type="integer"),
    column("Available", ".status.summary.available", "Addresses that are free.", type="integer"),
    condition("Ready", "Ready", "Whether a gateway can carry its addresses."),
    AGE,
    column("Binding", ".spec.bindingMode", "When an address is chosen.", wide=True),
    column("Reclaim", ".spec.reclaimPolicy", "Handling of a released address.", wide=True),
    condition("Redundant", "Redundant", "Whether the loss of a gateway is survived.", wide=True),
)


def resources() -> tuple[Resource, ...]:
    """Return the served resources of the group."""
    return (
        declare(
            ExternalService,
            API_VERSION,
            "externalservices",
            strategy=ExternalServiceStrategy(),
            columns=_EXTERNAL_SERVICE_COLUMNS,
            short_names=("extsvc",),
            subresources=(CONNECTIONS, PLAN, WHY),
        ),
        declare(Forwarder, API_VERSION, "forwarders", strategy=OwnStrategy(Forwarder), columns=_FORWARDER_COLUMNS),
        declare(Gateway, API_VERSION, "gateways", strategy=OwnStrategy(Gateway), columns=_GATEWAY_COLUMNS),
        declare(
            SourceIP,
            API_VERSION,
            "sourceips",
            strategy=SourceIPStrategy(),
            columns=_SOURCE_IP_COLUMNS,
            subresources=(WHY,),
            namespaced=False,
        ),
        declare(
            SourceIPClaim,
            API_VERSION,
            "sourceipclaims",
            strategy=SourceIPClaimStrategy(),
            columns=_CLAIM_COLUMNS,
            short_names=("sipc",),
            subresources=(PLAN, WHY),
        ),
        declare(
            SourceIPClass,
            API_VERSION,
            "sourceipclasses",
            strategy=SourceIPClassStrategy(),
            columns=_CLASS_COLUMNS,
            subresources=(WHY,),
            namespaced=False,
        ),
    )
