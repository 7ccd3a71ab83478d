"""The resources of Tarmac's own kinds, decoded to the declared kinds.

Each resource has one target, so that every controller shares one informer and one copy of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import msgspec

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.instancetype import InstanceType
from tarmac.api.compute.lookup import BuiltIn
from tarmac.api.compute.machineimage import LocalMachineImage, MachineImage
from tarmac.api.compute.names import API_VERSION as COMPUTE
from tarmac.api.compute.shorthand import without_short_form
from tarmac.api.compute.strategies import WorkloadStrategy
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.api.declare import decode as typed
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import Forwarder, Gateway
from tarmac.api.egress.names import API_VERSION as SUBMARINER
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.bgppeer import BGPPeer
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.networking.location import Location
from tarmac.api.networking.names import API_VERSION as NETWORKING
from tarmac.api.networking.network import Network, NetworkBinding, NetworkContext, Subnet, SubnetClaim
from tarmac.client.targets.target import Target, declared


class _Workloads(Target[Workload]):
    """Workloads as users wrote them: a server without Tarmac's kinds stores their shorthands as they are."""

    @cached_property
    def decode(self) -> Callable[[bytes | msgspec.Raw], Workload]:
        """Bytes to object, with shorthands expanded."""
        strategy = WorkloadStrategy(BuiltIn())

        def decode(raw: bytes | msgspec.Raw) -> Workload:
            obj = msgspec.json.decode(raw)
            strategy.normalise(obj)
            without_short_form(obj)
            return typed(Workload, obj)

        return decode


_GROUP, _, _VERSION = COMPUTE.rpartition("/")
WORKLOADS = _Workloads(_GROUP, _VERSION, "workloads", "Workload", True, Workload)
DEPLOYMENTS = declared(WorkloadDeployment, COMPUTE, "workloaddeployments")
INSTANCES = declared(Instance, COMPUTE, "instances")
INSTANCE_TYPES = declared(InstanceType, COMPUTE, "instancetypes", namespaced=False)
LOCAL_MACHINE_IMAGES = declared(LocalMachineImage, COMPUTE, "localmachineimages")
MACHINE_IMAGES = declared(MachineImage, COMPUTE, "machineimages", namespaced=False)

LOCATIONS = declared(Location, NETWORKING, "locations", namespaced=False)
NETWORKS = declared(Network, NETWORKING, "networks")
NETWORK_BINDINGS = declared(NetworkBinding, NETWORKING, "networkbindings")
NETWORK_CONTEXTS = declared(NetworkContext, NETWORKING, "networkcontexts")
SUBNET_CLAIMS = declared(SubnetClaim, NETWORKING, "subnetclaims")
SUBNETS = declared(Subnet, NETWORKING, "subnets")

ADDRESS_POOLS = declared(AddressPool, NETWORKING, "addresspools", namespaced=False)
BGP_PEERS = declared(BGPPeer, NETWORKING, "bgppeers", namespaced=False)
PUBLIC_ADDRESSES = declared(PublicAddress, NETWORKING, "publicaddresses", namespaced=False)

EXTERNAL_SERVICES = declared(ExternalService, SUBMARINER, "externalservices")
FORWARDERS = declared(Forwarder, SUBMARINER, "forwarders")
GATEWAYS = declared(Gateway, SUBMARINER, "gateways")
SOURCE_IPS = declared(SourceIP, SUBMARINER, "sourceips", namespaced=False)
SOURCE_IP_CLAIMS = declared(SourceIPClaim, SUBMARINER, "sourceipclaims")
SOURCE_IP_CLASSES = declared(SourceIPClass, SUBMARINER, "sourceipclasses", namespaced=False)
