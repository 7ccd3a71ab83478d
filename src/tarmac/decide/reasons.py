"""The catalogue of reasons: every code that a verdict, a condition or an event may carry.

Each reason has the party that can act on it, a priority for roll-up, and its meaning in one sentence. Roll-up shows the
child's reason with the highest priority, because that is the one a person can act on: "the network does not exist" is
more useful than "instances are being provisioned". Codes are plain strings, so that a stored condition, a verdict and a
test compare without conversion; a code is part of the API and never changes.

`docs/reference/reasons.md` is this table for readers; a test keeps the two equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Actor(Enum):
    """The party that can act on a reason."""

    NONE = "none"  # healthy, or a record of an event
    USER = "user"  # the author of the manifest
    PLATFORM = "platform"  # the operator of the places, nodes and networks
    TRANSIENT = "transient"  # it passes by itself
    STALLED = "stalled"  # it should have passed by itself, and did not


@dataclass(frozen=True, slots=True)
class Reason:
    """One entry. `patience` is the number of seconds a transient reason may last before it counts as stalled."""

    code: str
    actor: Actor
    priority: int
    text: str
    patience: int = 0


CATALOGUE: Final[dict[str, Reason]] = {}

_HAND_OFF, _NETWORK, _INSTANCE = 600, 900, 1800


def _add(actor: Actor, priority: int, code: str, text: str, patience: int = 0) -> str:
    assert code not in CATALOGUE, f"{code} is in the catalogue twice"
    CATALOGUE[code] = Reason(code, actor, priority, text, patience)
    return code


def fine(code: str, text: str) -> str:
    """Add a reason for a healthy state or for a mere event."""
    return _add(Actor.NONE, 0, code, text)


def user(priority: int, code: str, text: str) -> str:
    """Add a reason that the author of the manifest can remove."""
    return _add(Actor.USER, priority, code, text)


def platform(priority: int, code: str, text: str) -> str:
    """Add a reason that an operator can remove."""
    return _add(Actor.PLATFORM, priority, code, text)


def transient(priority: int, code: str, text: str, patience: int = _INSTANCE) -> str:
    """Add a reason that passes by itself."""
    return _add(Actor.TRANSIENT, priority, code, text, patience)


# Priorities: 1 generic, 10 in progress, 20 network in progress, 30 capacity, 40 quota, 50 the instance itself, 60
# places and networks that do not exist, 70 networks that cannot be created, 80 nothing can continue without a person.

# Healthy states.
AVAILABLE_PLACEMENT_FOUND = fine("AvailablePlacementFound", "At least one placement is available.")
AVAILABLE_DEPLOYMENT_FOUND = fine("AvailableDeploymentFound", "At least one deployment is available.")
STABLE_INSTANCE_FOUND = fine("StableInstanceFound", "At least one instance is ready.")
PROGRAMMED = fine("Programmed", "The instance has a node and a sandbox.")
RUNNING = fine("Running", "The instance runs.")
COMPLETE = fine("Complete", "Every desired instance exists, is ready and has the newest revision.")
ACTIVE = fine("Active", "The instance type or machine image may be used.")
NODES_READY = fine("NodesReady", "The Location has ready nodes.")
PROVIDER_READY = fine("ProviderReady", "The provider reports that the Location is ready.")
TUNNELS_OPEN = fine("TunnelsOpen", "Every other node that shares a Network answers tunnel probes.")
MACHINES_RUN = fine("MachinesRun", "The node runs virtual machines; the message has the accelerator.")
NETWORK_READY = fine("NetworkReady", "The network has its number and its ranges.")
NETWORK_CONTEXT_READY = fine("NetworkContextReady", "The network is usable at the Location.")
SUBNET_READY = fine("SubnetReady", "The subnet is usable.")
PREFIX_ALLOCATED = fine("PrefixAllocated", "The subnet has a range of addresses.")
QUOTA_AVAILABLE = fine("QuotaAvailable", "The quota has room for the instance.")
AUTOSCALER_READY = fine("AutoscalerReady", "Every metric could be read.")
WITHIN_SCALING_LIMITS = fine("WithinScalingLimits", "The number of instances is the number that the metrics require.")

# Events.
SCALED = fine("Scaled", "The desired number of instances has changed.")
ROLLOUT_STARTED = fine("RolloutStarted", "A new revision begins to replace the old one.")
ROLLOUT_COMPLETE = fine("RolloutComplete", "Every instance has the newest revision and is ready.")
PREEMPTED = fine("Preempted", "The pod was stopped to make room for a more important one.")
SCHEDULED = fine("Scheduled", "A node was selected.")
CITY_MOVED = fine("CityMoved", "Instances of a lost city start in another.")
CITY_RETURNED = fine("CityReturned", "A lost city is healthy again and takes its instances back.")

# Generic reasons, when nothing more precise is known.
NO_AVAILABLE_PLACEMENTS = transient(1, "NoAvailablePlacements", "No placement is available yet.")
NO_AVAILABLE_DEPLOYMENTS = transient(1, "NoAvailableDeployments", "No deployment of the placement is available yet.")
PENDING = transient(1, "Pending", "No controller has processed the object yet.", _HAND_OFF)
FAILED = platform(50, "Failed", "The operation failed; the message has all details.")

# In progress.
NEW_REVISION = transient(10, "NewRevision", "A new revision is replacing the old one.")
SCALING = transient(10, "Scaling", "Instances are being added or removed.")
PROVISIONING_INSTANCES = transient(10, "ProvisioningInstances", "Instances are being created.")
LOCATION_ASSIGNED = transient(
    10, "LocationAssigned", "The deployment has a Location; its instances come next.", _HAND_OFF
)
PENDING_PROGRAMMING = transient(10, "PendingProgramming", "The instance waits for a node.", _HAND_OFF)
PROGRAMMING_IN_PROGRESS = transient(10, "ProgrammingInProgress", "A node is starting the instance.")
SCHEDULING_GATES_PRESENT = transient(11, "SchedulingGatesPresent", "A scheduling gate holds the instance back.")
STARTING = transient(10, "Starting", "The instance is starting.")
STOPPING = transient(10, "Stopping", "The instance is stopping.")
STOPPED = transient(10, "Stopped", "The instance has exited, or its machine was stopped.")
NOT_READY = transient(12, "NotReady", "The instance runs, but reports that it is not ready to serve.")
TERMINATING = transient(10, "Terminating", "The object is being deleted.")
WAITING_FOR_INSTANCE = transient(10, "WaitingForInstance", "The rollout waits for an instance to become ready.")
NAME_BEING_DELETED = transient(12, "NameBeingDeleted", "An older object of the same name is still being deleted.")
REVISION_NOT_FOUND = user(13, "RevisionNotFound", "The history has no such revision.")
ROLLOUT_FAILED = user(54, "RolloutFailed", "The newest revision failed in a city, and the rollout has stopped.")
WAITING_FOR_WAVE = transient(
    10, "WaitingForWave", "The city gets the newest revision after the cities of earlier waves."
)
PAUSED = user(13, "Paused", "Rollout and scaling are paused.")
STALLED = _add(Actor.STALLED, 35, "Stalled", "The operation should have finished by itself long ago.")

# Pods of Kubernetes' own kinds.
OWNED = fine("Owned", "The message names the object that the pod belongs to.")
OWNER_AS_WANTED = fine("OwnerAsWanted", "Every pod that the object asks for is ready.")
PODS_MISSING = transient(10, "PodsMissing", "The object has fewer ready pods than it asks for.")
OWNER_FAILED = user(54, "OwnerFailed", "The controller of the object reports a failure; the message has its words.")
NO_CONTROLLER_RUNS = platform(80, "NoControllerRuns", "No controller runs objects of this kind here.")

# Networks in progress, missing or impossible.
PROVISIONING_NETWORK = transient(20, "ProvisioningNetwork", "The network is being created.", _NETWORK)
NETWORK_CONTEXT_NOT_READY = transient(20, "NetworkContextNotReady", "The network is not usable here yet.", _NETWORK)
SUBNET_NOT_READY = transient(20, "SubnetNotReady", "The subnet has no addresses yet.", _NETWORK)
NETWORK_IN_USE = user(22, "NetworkInUse", "The network is being deleted, and deployments still use it.")
NETWORK_NOT_FOUND = user(65, "NetworkNotFound", "The network does not exist.")
ADDRESS_FAMILY_NOT_CARRIED = user(64, "AddressFamilyNotCarried", "The network does not carry the address family.")
NETWORK_FAILED_TO_CREATE = platform(70, "NetworkFailedToCreate", "The network could not be created.")
NETWORK_RANGE_REFUSED = user(
    72, "NetworkRangeRefused", "The network's range contains addresses that no network may use."
)
NETWORK_RANGES_OVERLAP = user(
    68, "NetworkRangesOverlap", "Two interfaces of the instance are on networks with overlapping ranges."
)
ADDRESS_RANGE_EXHAUSTED = user(71, "AddressRangeExhausted", "The network's range has no room for another subnet.")
ADDRESS_POOL_EXHAUSTED = user(71, "AddressPoolExhausted", "The subnet has no free address.")
NETWORK_IDS_EXHAUSTED = platform(71, "NetworkIdsExhausted", "No network identifier is free.")

# Places.
NO_LOCATIONS = platform(62, "NoLocations", "No Location exists.")
NO_CANDIDATE_LOCATIONS = platform(61, "NoCandidateLocations", "No Location of the city can take the deployment.")
NO_MATCHING_LOCATIONS = user(60, "NoMatchingLocations", "The placement matches no Location.")
LOCATION_NOT_FOUND = user(60, "LocationNotFound", "The Location does not exist.")
LOCATION_NOT_READY = platform(55, "LocationNotReady", "The Location is not ready.")
NO_READY_NODES = platform(55, "NoReadyNodes", "None of the Location's nodes is ready.")
LOCATION_UNREACHABLE = platform(
    55, "LocationUnreachable", "The Location cannot be reached; its instances may still run."
)
CITY_LOST = platform(55, "CityLost", "The city is lost; its instances wait for it.")
NO_FALLBACK_CITY = platform(56, "NoFallbackCity", "None of the fallback cities is ready.")
MOVE_RATE_LIMITED = transient(54, "MoveRateLimited", "The instances of a lost city move step by step.")

# Quota and capacity.
QUOTA_EXHAUSTED = user(40, "QuotaExhausted", "The quota has no room for another instance.")
INSUFFICIENT_CAPACITY = platform(30, "InsufficientCapacity", "No node has room.")

PREEMPTING = transient(12, "Preempting", "Less important pods are being stopped to make room.", _HAND_OFF)

# Reasons why a pod cannot leave a node that is being drained.
EVICTION_WAITS = transient(
    9, "EvictionWaits", "A disruption budget allows the eviction once more of its pods are healthy."
)
EVICTION_REFUSED = user(14, "EvictionRefused", "A disruption budget never allows the eviction of the pod.")

# Reasons why the scheduler skipped a node.
UNSCHEDULABLE = platform(31, "Unschedulable", "No node can take the pod.")
NO_NODES = platform(32, "NoNodes", "No node exists where the pod may run.")
NODE_NOT_READY = platform(31, "NodeNotReady", "The node is not ready.")
NODE_CONDITION = platform(20, "NodeCondition", "A condition of the node is not the healthy one.")
NODE_UNSCHEDULABLE = platform(31, "NodeUnschedulable", "The node is cordoned.")
TAINT_NOT_TOLERATED = user(31, "TaintNotTolerated", "The node has a taint that the pod does not tolerate.")
NODE_AFFINITY_MISMATCH = user(
    31, "NodeAffinityMismatch", "The node does not match the pod's node selector or affinity."
)
OUTSIDE_LOCATION = user(31, "OutsideLocation", "The node is not at the Location that the pod belongs to.")
PORT_IN_USE = user(31, "PortInUse", "A host port of the pod is taken on the node.")
TOPOLOGY_SPREAD_UNSATISFIED = user(31, "TopologySpreadUnsatisfied", "The pod would make the spread too uneven.")
POD_AFFINITY_UNSATISFIED = user(31, "PodAffinityUnsatisfied", "No pod that matches the pod affinity is there.")
POD_ANTI_AFFINITY_UNSATISFIED = user(
    31, "PodAntiAffinityUnsatisfied", "A pod that matches the pod anti-affinity is there."
)
RUNTIME_UNAVAILABLE = platform(31, "RuntimeUnavailable", "The node does not offer the pod's runtime.")
MACHINES_NOT_INSTALLED = platform(
    31, "MachinesNotInstalled", "The node has no QEMU, or no kernel to probe it with; the message has the command."
)
MACHINE_TRIAL_FAILED = platform(31, "MachineTrialFailed", "No kernel booted in a virtual machine of the node.")
CONNECTED_BY_PLUGINS = platform(
    31, "ConnectedByPlugins", "Network plugins connect the node's pods; machines need Networks that the agent makes."
)
DEVICE_UNSUPPORTED = user(31, "DeviceUnsupported", "The pod requests devices, which its runtime does not support.")
CLASS_UNAVAILABLE = user(31, "ClassUnavailable", "The node does not offer a class that the pod requests.")
CLASS_EXHAUSTED = platform(30, "ClassExhausted", "A class that the pod requests has no free place on the node.")
DISK_ELSEWHERE = platform(31, "DiskElsewhere", "The pod's disk is on another node.")
DISK_ON_LOST_NODE = platform(80, "DiskOnLostNode", "The pod's disk is on a lost node.")

# Services.
SERVICE_TYPE_NOT_OFFERED = user(2, "ServiceTypeNotOffered", "The Service has a type that is not supported here.")
OFFERED = fine("Offered", "Addresses of Services are given out from the ServiceCIDR.")
NOT_OFFERED = user(2, "NotOffered", "No address of a Service is given out from the ServiceCIDR.")
TOO_MANY_ADDRESSES_TO_MIRROR = user(
    2, "TooManyAddressesToMirror", "Endpoints lists more addresses than slices can mirror."
)

# Disruption budgets, for events; the names are those of Kubernetes.
NO_PODS = transient(2, "NoPods", "The selector matches no pod.")
UNMANAGED_PODS = user(3, "UnmanagedPods", "The disruption budget selects pods without a controller.")
CALCULATE_EXPECTED_POD_COUNT_FAILED = user(
    3, "CalculateExpectedPodCountFailed", "The expected number of pods of the disruption budget is unknown."
)
NOT_DELETED = platform(3, "NotDeleted", "A pod was evicted and still exists.")

# The instance itself.
SOURCE_NOT_FOUND = user(52, "SourceNotFound", "A ConfigMap or Secret that the instance needs does not exist.")
IMAGE_UNAVAILABLE = user(53, "ImageUnavailable", "The image cannot be pulled, or has no source.")
CONFIGURATION_ERROR = user(53, "ConfigurationError", "The container cannot be created from its specification.")
REFUSED_BY_NODE = platform(52, "RefusedByNode", "The node rejects or evicts the instance's pod.")
INSTANCE_CRASHING = user(51, "InstanceCrashing", "The instance starts and exits again and again.")
GUEST_PANICKED = user(51, "GuestPanicked", "The operating system of the virtual machine has panicked.")
MACHINE_FAILED = platform(51, "MachineFailed", "The process of the virtual machine has exited or cannot continue.")
MACHINE_PAUSED = user(13, "MachinePaused", "A user has paused the virtual machine.")
DISK_FULL = platform(
    52, "DiskFull", "The node's disk is full; the virtual machine is paused until there is space again."
)
IMAGE_REFUSED = platform(54, "ImageRefused", "The machine image differs from the catalogue, or must not be used.")
OUT_OF_MEMORY = user(51, "OutOfMemory", "The instance used more memory than it has.")
NODE_LOST = transient(33, "NodeLost", "The instance's node is lost; a replacement comes after a while.")
RESTORED_CONFLICT = platform(
    81, "RestoredConflict", "A node runs a pod of this name that conflicts with the restored store."
)
NAME_TAKEN = user(80, "NameTaken", "An object of that name has another owner.")
INSTANCE_TYPE_NOT_FOUND = user(66, "InstanceTypeNotFound", "The instance type does not exist.")
PRIORITY_CLASS_NOT_FOUND = user(54, "PriorityClassNotFound", "The priority class does not exist any more.")
INSTANCE_TYPE_DISABLED = user(2, "InstanceTypeDisabled", "The instance type may no longer be used.")
INSTANCE_TYPE_DEPRECATED = user(2, "InstanceTypeDeprecated", "The instance type will be removed; use its replacement.")
IMAGE_DISABLED = user(2, "ImageDisabled", "The machine image may no longer be used.")
IMAGE_DEPRECATED = user(2, "ImageDeprecated", "The machine image will be removed; use its replacement.")

# Scaling.
METRICS_UNAVAILABLE = platform(14, "MetricsUnavailable", "The metrics cannot be read; the number stays.")
TOO_FEW_METRICS = transient(14, "TooFewMetrics", "Too few instances have reported; the number stays.")
SCALE_DOWN_STABILIZED = transient(3, "ScaleDownStabilized", "A recent peak keeps the number up for a while.")
SCALE_UP_STABILIZED = transient(3, "ScaleUpStabilized", "A recent low keeps the number down for a while.")
SCALE_RATE_LIMITED = transient(3, "ScaleRateLimited", "A scaling policy limits how fast the number changes.")
TOO_MANY_REPLICAS = user(3, "TooManyReplicas", "More instances are requested than maxReplicas.")
TOO_FEW_REPLICAS = user(3, "TooFewReplicas", "Fewer instances are requested than minReplicas.")

# External services: healthy, and in progress.
ADDRESS_BOUND = fine("AddressBound", "The claim, Service or Workload holds its addresses.")
GATEWAY_OWNS = fine("GatewayOwns", "A gateway owns the address.")
RULES_IN_FORCE = fine("RulesInForce", "Every node concerned has the newest rules.")
REDUNDANT = fine("Redundant", "The service survives the loss of a gateway.")
CLAIM_NOT_BOUND = transient(11, "ClaimNotBound", "The claim holds no address yet.", _HAND_OFF)
WAIT_FOR_FIRST_CONSUMER = transient(
    10, "WaitForFirstConsumer", "An address is selected when an ExternalService uses the claim."
)
PROGRAMMING = transient(10, "Programming", "Nodes are applying the newest rules.", _HAND_OFF)
OWNER_CHANGING = transient(12, "OwnerChanging", "The address moves from one gateway to another.", _HAND_OFF)

# External services: reasons that their author can change.
SOURCE_SERVICE_NOT_FOUND = user(60, "SourceServiceNotFound", "A Service that is named as a source does not exist.")
NOT_GRANTED = user(59, "NotGranted", "The Service's namespace has not allowed the use of its pods.")
ADDRESS_NOT_CLAIMED = user(58, "AddressNotClaimed", "No bound claim of the namespace holds the address.")
CLAIM_NOT_FOUND = user(58, "ClaimNotFound", "The claim does not exist.")
FAMILY_MISMATCH = user(57, "FamilyMismatch", "The claim has no address of the target's family.")
HOST_NETWORK_POD = user(34, "HostNetworkPod", "A pod on the host's network has no address of its own.")
NOT_A_POD = user(34, "NotAPod", "An endpoint is not a pod of the Service's namespace.")
AMBIGUOUS_SOURCE = user(3, "AmbiguousSource", "A pod belongs to several sources; the first counts.")
TARGET_NOT_ALLOWED = user(57, "TargetNotAllowed", "The class of the address does not allow the target.")
TARGET_INSIDE_PLATFORM = user(73, "TargetInsidePlatform", "The target is not a server outside the platform.")
INBOUND_DENIED = user(56, "InboundDenied", "The class does not allow inbound connections.")
INBOUND_CONFLICT = user(35, "InboundConflict", "The target reaches another Service at that address and port.")
TOO_MANY_RULES = user(43, "TooManyRules", "The rules of an address or a node exceed the limit of one object.")
NAME_CONFLICT = user(3, "NameConflict", "An older ExternalService has the short name.")
CLASS_NOT_FOUND = user(58, "ClassNotFound", "The class does not exist.")
NOT_AUTHORIZED = user(59, "NotAuthorized", "The class or pool does not allow the namespace.")
QUOTA_EXCEEDED = user(41, "QuotaExceeded", "The class or pool gives no more addresses to the namespace.")
ADDRESS_IN_USE = user(42, "AddressInUse", "Another claim, Service or Workload holds the address.")
ADDRESS_NOT_IN_CLASS = user(57, "AddressNotInClass", "No range of the class or pool contains the address.")
ADDRESS_RESERVED = user(57, "AddressReserved", "The address is reserved and never assigned.")
ADDRESS_QUARANTINED = user(42, "AddressQuarantined", "The address rests, since external servers may still trust it.")
LOCATION_NOT_IN_CLASS = user(60, "LocationNotInClass", "The addresses of the class are not routable there.")
LOCATION_MISMATCH = user(42, "LocationMismatch", "An older ExternalService has selected the Location of the address.")
ADDRESS_LOST = user(74, "AddressLost", "The address of the claim was deleted or is no longer offered.")

# External services: reasons that the operator of the platform can change.
POOL_EXHAUSTED = platform(43, "PoolExhausted", "The class or pool has no free address.")
NO_GATEWAY = platform(61, "NoGateway", "No node may own the address.")
GATEWAY_FULL = platform(44, "GatewayFull", "Every node that may own the address is at its limit of addresses.")
NO_OUTSIDE_INTERFACE = platform(45, "NoOutsideInterface", "No candidate has an interface on the addresses' segment.")
ADDRESS_CONFLICT = platform(75, "AddressConflict", "Another host on the segment has the address.")
RANGE_OVERLAP = platform(61, "RangeOverlap", "An older class or pool offers the same addresses.")
ENCRYPTION_UNAVAILABLE = platform(36, "EncryptionUnavailable", "Tunnels between cities cannot be encrypted.")
NODE_HAS_NO_DATAPATH = platform(36, "NodeHasNoDatapath", "The pod's node has no Tarmac datapath.")
PROGRAMMING_FAILED = platform(55, "ProgrammingFailed", "A node could not apply the rules.")
TOO_FEW_VOTERS = platform(5, "TooFewVoters", "With fewer than three nodes, the loss of one takes the address down.")
NOT_SYNCED = platform(4, "NotSynced", "No other gateway has a copy of the connections.")
SOURCE_IP_IDS_EXHAUSTED = platform(71, "SourceIPIdsExhausted", "No identity is free for another address.")

# Connections from outside.
ANNOUNCED = fine("Announced", "The address is announced wherever it should be.")
PARTLY_ANNOUNCED = fine("PartlyAnnounced", "Some of the cities with ready instances announce the address.")
NO_READY_INSTANCE = transient(12, "NoReadyInstance", "No instance is ready, so no city announces the address.")
NO_ENDPOINTS = transient(12, "NoEndpoints", "The Service has no ready endpoint to lead to.")
WITHDRAWN = transient(12, "Withdrawn", "The address was announced, and is not any more.", _HAND_OFF)
DRAINING = transient(10, "Draining", "The node withdraws the address before it stops.", _HAND_OFF)
PORT_CONFLICT = user(57, "PortConflict", "Another Service on the shared address has the port.")
POLICY_MISMATCH = user(57, "PolicyMismatch", "The shared address has another traffic policy, or is not shared.")
NO_PORTS = user(58, "NoPorts", "The template declares no port that the address could lead to.")
POOL_NOT_FOUND = user(58, "PoolNotFound", "The AddressPool does not exist, or is for another use.")
NO_POOL = platform(44, "NoPool", "No AddressPool gives addresses to the namespace.")
NO_PEER = platform(45, "NoPeer", "No BGPPeer has an established session to announce the address to.")
SESSION_DOWN = platform(46, "SessionDown", "A node has no established session with the peer.")
SELF_TEST_FAILED = platform(46, "SelfTestFailed", "A node's own connection to the address failed.")
TOO_MANY_PREFIXES = platform(46, "TooManyPrefixes", "A node announces as many addresses as the peer accepts.")
SPEAKER_MISSING = platform(47, "SpeakerMissing", "The node has no BGP speaker.")
NOT_ANNOUNCED = platform(3, "NotAnnounced", "No node announces the address.")

# Reachability.
REACHABLE = fine("Reachable", "No rule of the platform blocks the connection.")
NOT_ATTACHED = transient(20, "NotAttached", "The pod has no address or no node yet.", _NETWORK)
NO_ROUTE = user(10, "NoRoute", "No interface has a route to the target.")
DIFFERENT_NETWORKS = user(10, "DifferentNetworks", "The two have no Network in common.")
NO_SUCH_ADDRESS = user(10, "NoSuchAddress", "No pod has the address.")
TUNNEL_PORT = user(10, "TunnelPort", "Pods may not send to the ports of the nodes' tunnels.")
TUNNEL_CLOSED = platform(10, "TunnelClosed", "Packets between two nodes are lost: a firewall drops them.")
NO_READY_ENDPOINT = user(11, "NoReadyEndpoint", "The Service has no ready endpoint.")
EGRESS_DENIED = user(12, "EgressDenied", "No policy of the sender allows the connection out.")
INGRESS_DENIED = user(12, "IngressDenied", "No policy of the receiver allows the connection in.")


def reason(code: str) -> Reason:
    """Return the entry of a code. Raises KeyError for a code that is not in the catalogue."""
    return CATALOGUE[code]


def priority(code: str) -> int:
    """Return the priority of a code in roll-up; an unknown code, from a provider, has that of Failed."""
    known = CATALOGUE.get(code)
    return CATALOGUE[FAILED].priority if known is None else known.priority
