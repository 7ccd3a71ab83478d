"""submariner.io: ExternalService, Forwarder, Gateway, SourceIP, SourceIPClaim, SourceIPClass."""

from __future__ import annotations

from tarmac.api.columns import AGE, NAME, column, condition, join
from tarmac.api.declare import declare
from tarmac.api.ownkinds import OwnStrategy
from tarmac.api.resource import Resource
from tarmac.api.submariner.externalservice import ExternalService
from tarmac.api.submariner.names import API_VERSION
from tarmac.api.submariner.relays import Forwarder, Gateway
from tarmac.api.submariner.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.api.submariner.strategies import (
    ExternalServiceStrategy,
    SourceIPClaimStrategy,
    SourceIPClassStrategy,
    SourceIPStrategy,
)

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
_RELAY_COLUMNS = (
    NAME,
    column("Generation", ".metadata.generation", "Newest rules.", type="integer"),
    column("Applied", ".status.appliedGeneration", "Rules in force.", type="integer"),
    condition("Programmed", "Programmed", "Whether all rules are in force."),
    AGE,
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
)
_CLASS_COLUMNS = (
    NAME,
    column("Sharing", ".spec.sharing", "Whether an address may serve several users."),
    column("Binding", ".spec.bindingMode", "When an address is chosen."),
    column("Reclaim", ".spec.reclaimPolicy", "What becomes of a released address."),
    AGE,
)


def resources() -> tuple[Resource, ...]:
    """The served resources of the group."""
    return (
        declare(
            ExternalService,
            API_VERSION,
            "externalservices",
            strategy=ExternalServiceStrategy(),
            columns=_EXTERNAL_SERVICE_COLUMNS,
            short_names=("extsvc",),
        ),
        declare(Forwarder, API_VERSION, "forwarders", strategy=OwnStrategy(Forwarder), columns=_RELAY_COLUMNS),
        declare(Gateway, API_VERSION, "gateways", strategy=OwnStrategy(Gateway), columns=_RELAY_COLUMNS),
        declare(
            SourceIP,
            API_VERSION,
            "sourceips",
            strategy=SourceIPStrategy(),
            columns=_SOURCE_IP_COLUMNS,
            namespaced=False,
        ),
        declare(
            SourceIPClaim,
            API_VERSION,
            "sourceipclaims",
            strategy=SourceIPClaimStrategy(),
            columns=_CLAIM_COLUMNS,
            short_names=("sipc",),
        ),
        declare(
            SourceIPClass,
            API_VERSION,
            "sourceipclasses",
            strategy=SourceIPClassStrategy(),
            columns=_CLASS_COLUMNS,
            namespaced=False,
        ),
    )
