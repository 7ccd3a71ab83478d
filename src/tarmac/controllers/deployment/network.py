"""Readiness of a deployment's Networks at its Location, and the subnets to attach to.

A deployment requests a Network at a Location with a NetworkBinding; the network controller answers with a context and
its subnets. Until every interface has a subnet of every family it needs, new Instances wait behind the gate `Network`.
"""

from __future__ import annotations

from tarmac.api.compute.instance import NetworkInterface
from tarmac.api.compute.names import binding_name
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.conditions import find, holds
from tarmac.api.networking.network import NetworkBinding, NetworkContext
from tarmac.api.shared import Condition
from tarmac.client.informer import Informers
from tarmac.client.targets.typed import NETWORK_BINDINGS
from tarmac.controllers.attachments import Attaching
from tarmac.controllers.ipam import Attachment
from tarmac.decide import reasons
from tarmac.decide.addresses import overlap
from tarmac.decide.verdict import Refusal, Verdict


class DeploymentNetworks:
    """Networks, bindings, contexts and subnets from the caches."""

    def __init__(self, informers: Informers) -> None:
        self._attaching = Attaching(informers)
        self.networks, self.contexts, self.subnets = self._attaching.informers
        self.bindings = informers.informer(NETWORK_BINDINGS)

    def attachments(self, deployment: WorkloadDeployment) -> Verdict[tuple[Attachment, ...]]:
        """Return every interface of the deployment, or the first reason why one is missing."""
        found: list[Attachment] = []
        interfaces = deployment.spec.template.spec.network_interfaces
        for index, nic in enumerate(interfaces):
            verdict = self._attachment(deployment, index, nic)
            if verdict.value is None:
                return Verdict(None, verdict.refusals)
            found.append(verdict.value)
        # Last: Networks with subnets have their ranges, and Networks without ranges overlap nothing.
        clash = overlap(deployment.metadata.namespace, interfaces, self.networks.get)
        return Verdict(None, (clash.refusal,)) if clash else Verdict(self._attaching.leading(found))

    def _attachment(self, deployment: WorkloadDeployment, index: int, nic: NetworkInterface) -> Verdict[Attachment]:
        namespace = nic.network.namespace or deployment.metadata.namespace
        key = f"{namespace}/{nic.network.name}"
        network = self.networks.get(key)
        if network is None:
            return _no(reasons.NETWORK_NOT_FOUND, f"Network {key} does not exist.", f"Create Network {key}.")
        families = nic.ip_families or network.spec.ip_families
        for family in families:
            if family not in network.spec.ip_families:
                change = f"Remove {family} from the interface {nic.name}."
                return _no(reasons.ADDRESS_FAMILY_NOT_CARRIED, f"Network {key} does not carry {family}.", change)
        binding = self.bindings.get(f"{deployment.metadata.namespace}/{binding_name(deployment.metadata.name, index)}")
        context = self._context(binding)
        if context is None:
            return _waiting(binding.status.conditions if binding and binding.status else [])
        found = self._attaching.attachment(nic.name, network, context, families, nic.network_policy)
        if found is None:
            return _no(reasons.SUBNET_NOT_READY, f"Network {key} has no subnet here yet.")
        return Verdict(found)

    def _context(self, binding: NetworkBinding | None) -> NetworkContext | None:
        if binding is None or binding.status is None or not holds(binding.status.conditions, "Ready"):
            return None
        reference = binding.status.network_context_ref
        if reference is None:
            return None
        return self.contexts.get(f"{reference.namespace or binding.metadata.namespace}/{reference.name}")


def _waiting(conditions: list[Condition]) -> Verdict[Attachment]:
    """Return the reason of a failed binding; any other is being provisioned."""
    failed = find(conditions, "Ready")
    if (
        failed is not None
        and failed.status == "False"
        and reasons.priority(failed.reason) > reasons.priority(reasons.PROVISIONING_NETWORK)
    ):
        return _no(failed.reason, failed.message)
    return _no(reasons.PROVISIONING_NETWORK, "Network is being provisioned")


def _no(reason: str, message: str, change: str = "") -> Verdict[Attachment]:
    return Verdict(None, (Refusal(reason, message, rule="network", change=change),))
