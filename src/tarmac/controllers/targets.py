"""The resources of Tarmac's own kinds, as controllers address them.

Each resource has one target, so that every controller shares one informer and one copy of it.
"""

from __future__ import annotations

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.instancetype import InstanceType
from tarmac.api.compute.names import API_VERSION as COMPUTE
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.api.networking.location import Location
from tarmac.api.networking.names import API_VERSION as NETWORKING
from tarmac.api.networking.network import Network, NetworkBinding, NetworkContext, Subnet, SubnetClaim
from tarmac.client.targets import declared, dynamic

WORKLOADS = declared(Workload, COMPUTE, "workloads")
DEPLOYMENTS = declared(WorkloadDeployment, COMPUTE, "workloaddeployments")
INSTANCES = declared(Instance, COMPUTE, "instances")
INSTANCE_TYPES = declared(InstanceType, COMPUTE, "instancetypes", namespaced=False)

LOCATIONS = declared(Location, NETWORKING, "locations", namespaced=False)
NETWORKS = declared(Network, NETWORKING, "networks")
NETWORK_BINDINGS = declared(NetworkBinding, NETWORKING, "networkbindings")
NETWORK_CONTEXTS = declared(NetworkContext, NETWORKING, "networkcontexts")
SUBNET_CLAIMS = declared(SubnetClaim, NETWORKING, "subnetclaims")
SUBNETS = declared(Subnet, NETWORKING, "subnets")

RESOURCE_QUOTAS = dynamic("v1", "resourcequotas", "ResourceQuota")
