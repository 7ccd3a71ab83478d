"""Instance and the instance template: runtime, resources, network interfaces and volumes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tarmac.api.compute.names import DEFAULT_INSTANCE_TYPE
from tarmac.api.compute.probes import ContainerLifecycle, Probe
from tarmac.api.compute.volumes import Volume, VolumeAttachment
from tarmac.api.declare import Field, Struct
from tarmac.api.networking.policy import InterfacePolicy
from tarmac.api.shared import (
    Conditions,
    EnvFromSource,
    EnvVar,
    IPFamily,
    Kind,
    Labels,
    LocalObjectReference,
    LocationReference,
    ObservedGeneration,
    Protocol,
    ResourceList,
    Summary,
    counted,
)


class Port(Struct):
    """A named port, for network policies and discovery."""

    name: Annotated[str, Field("An IANA service name, unique in the instance.")]
    port: Annotated[int, Field("The number, 1 to 65535.", minimum=1, maximum=65535)]
    protocol: Annotated[Protocol, Field("The transport protocol; by default TCP.")] = "TCP"


class ContainerResources(Struct):
    """A container's share of the instance's resources."""

    requests: Annotated[
        ResourceList,
        Field(
            "The container's share of the instance's resources. Each resource must be one of the instance's, and no "
            "more than it has."
        ),
    ] = {}
    limits: Annotated[
        ResourceList,
        Field("The container's limits. If every container has limits, they must add up to the instance's."),
    ] = {}


class Capabilities(Struct):
    """Linux capabilities, named without the CAP_ prefix."""

    add: Annotated[list[str], Field("Capabilities to add; ALL is not allowed.")] = []
    drop: Annotated[list[str], Field("Capabilities to drop; ALL is allowed.")] = []


class SeccompProfile(Struct):
    """A filter of system calls."""

    type: Annotated[Literal["RuntimeDefault", "Unconfined", "Localhost"], Field("Kind of profile.")]
    localhost_profile: Annotated[str, Field("Profile file on the node, for type Localhost.")] = ""


class SecurityContext(Struct):
    """Security settings of the container's processes."""

    allow_privilege_escalation: Annotated[bool | None, Field("Whether a process may gain more privileges.")] = None
    capabilities: Annotated[Capabilities | None, Field("Linux capabilities.")] = None
    seccomp_profile: Annotated[SeccompProfile | None, Field("System call filter.")] = None


class Container(Struct):
    """One container of a sandbox."""

    name: Annotated[str, Field("A DNS label, unique among containers and init containers.")]
    image: Annotated[str, Field("Fully qualified image, such as ghcr.io/acme/api:1.4.2. The registry must be named.")]
    command: Annotated[list[str], Field("Replaces the image's entry point.")] = []
    args: Annotated[list[str], Field("Replaces the image's arguments.")] = []
    env: Annotated[list[EnvVar], Field("Environment variables.", key="name", max_items=5000)] = []
    env_from: Annotated[list[EnvFromSource], Field("Whole ConfigMaps and Secrets as environment variables.")] = []
    resources: Annotated[ContainerResources | None, Field("Share of the instance's resources; by default all.")] = None
    volume_attachments: Annotated[list[VolumeAttachment], Field("Volumes to mount.", max_items=250)] = []
    ports: Annotated[list[Port], Field("Named ports.", key="name", max_items=1000)] = []
    security_context: Annotated[SecurityContext | None, Field("Privileges of the processes.")] = None
    working_dir: Annotated[str, Field("Where the container starts; by default where its image says.")] = ""
    image_pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"] | None,
        Field("When the image is fetched; by default Always for the tag latest or none, else IfNotPresent."),
    ] = None
    readiness_probe: Annotated[
        Probe | None, Field("Whether the container serves. Rollouts wait for it, and Services leave it out until then.")
    ] = None
    liveness_probe: Annotated[Probe | None, Field("Whether the container is alive; if not, it is restarted.")] = None
    startup_probe: Annotated[
        Probe | None, Field("Whether the container has started; the other probes wait for it. If not, it is restarted.")
    ] = None
    lifecycle: Annotated[ContainerLifecycle | None, Field("Hooks after the start and before the termination.")] = None


class Sysctl(Struct):
    """A kernel parameter of the sandbox."""

    name: Annotated[str, Field("Name of the parameter, such as net.core.somaxconn.")]
    value: Annotated[str, Field("Its value.")]


class Sandbox(Struct):
    """A managed, isolated environment with a kernel of its own, in which containers run."""

    containers: Annotated[
        list[Container], Field("Containers that run side by side.", key="name", min_items=1, max_items=100)
    ]
    init_containers: Annotated[
        list[Container],
        Field(
            "Containers that run one after the other, each to completion, before the main containers.",
            key="name",
            max_items=100,
        ),
    ] = []
    image_pull_secrets: Annotated[list[LocalObjectReference], Field("Secrets for pulling images.", key="name")] = []
    sysctls: Annotated[list[Sysctl], Field("Kernel parameters.", key="name")] = []
    termination_grace_period_seconds: Annotated[
        int | None,
        Field(
            "How long the containers have to end before they are killed; by default 30, at most 600.",
            minimum=0,
            format="int64",
        ),
    ] = None


class CloudInit(Struct):
    """cloud-init data for the first boot: inline, or in a Secret with the keys userData and networkData."""

    user_data: Annotated[
        str, Field("cloud-init user data, such as a #cloud-config. With networkData at most 64 KiB.")
    ] = ""
    network_data: Annotated[
        str, Field("cloud-init network configuration, instead of the one that sets the instance's addresses.")
    ] = ""
    secret_ref: Annotated[LocalObjectReference | None, Field("Secret that holds them, instead of the fields.")] = None


class VirtualMachine(Struct):
    """A classical virtual machine that boots an operating system from its first volume."""

    volume_attachments: Annotated[
        list[VolumeAttachment],
        Field(
            "Disks in order, at most 24; the first is the boot disk and must have an image.", min_items=1, max_items=250
        ),
    ]
    ports: Annotated[list[Port], Field("Named ports.", key="name", max_items=1000)] = []
    cloud_init: Annotated[CloudInit | None, Field("First-boot configuration.")] = None
    running: Annotated[
        bool,
        Field(
            "Whether the machine runs; by default true. With false it is shut down and keeps its disks and addresses. "
            "A change of this alone replaces no instance."
        ),
    ] = True
    readiness_probe: Annotated[
        Probe | None,
        Field("Whether the machine serves; by default whether its first TCP port opens, asked every 2 seconds."),
    ] = None
    liveness_probe: Annotated[Probe | None, Field("Whether the machine is alive; if not, it is started again.")] = None
    startup_probe: Annotated[
        Probe | None, Field("Whether the machine has started; the other probes wait for it. If not, it starts again.")
    ] = None
    termination_grace_period_seconds: Annotated[
        int | None,
        Field(
            "How long the operating system has to shut down before the machine is ended; by default 60, at most 600.",
            minimum=0,
            format="int64",
        ),
    ] = None


class RuntimeResources(Struct):
    """Resources of one instance."""

    instance_type: Annotated[
        str,
        Field(
            f"A type of the catalogue, by default {DEFAULT_INSTANCE_TYPE}, or <family>-custom with `requests`.",
            filled=DEFAULT_INSTANCE_TYPE,
        ),
    ]
    requests: Annotated[
        ResourceList,
        Field("Amounts for a custom type: cpu and memory, and devices if wanted. Only with a custom type."),
    ] = {}


class InstanceRuntime(Struct):
    """The runtime: a sandbox of containers, or a virtual machine. Exactly one is set."""

    resources: Annotated[
        RuntimeResources, Field("Resources of one instance.", filled={"instanceType": DEFAULT_INSTANCE_TYPE})
    ]
    sandbox: Annotated[Sandbox | None, Field("Containers in a sandbox.")] = None
    virtual_machine: Annotated[VirtualMachine | None, Field("A virtual machine.")] = None


class NetworkReference(Struct):
    """A Network. In a manifest the name alone may stand for it: `network: default`."""

    name: Annotated[str, Field("Name of the Network.")]
    namespace: Annotated[str, Field("Its namespace; by default the same.")] = ""


class AddressRequest(Struct):
    """An address to hold on the interface."""

    address_class: Annotated[str, Field("Class of the address.")] = msgspec.field(name="class")


class NetworkInterface(Struct, kw_only=True):
    """A network interface of the instance."""

    name: Annotated[str, Field("Name inside the instance; by default eth0, eth1, … in order.")] = ""
    network: Annotated[NetworkReference, Field("Network to attach to; a plain name is accepted.", or_name=True)]
    ip_families: Annotated[
        list[IPFamily], Field("Address families; by default those of the network.", unique=True, max_items=2)
    ] = []
    addresses: Annotated[list[AddressRequest], Field("Further addresses to hold.", max_items=4)] = []
    reclaim_policy: Annotated[
        Literal["Delete", "Retain"], Field("Handling of the addresses when the instance is deleted; by default Delete.")
    ] = "Delete"
    network_policy: Annotated[
        InterfacePolicy | None,
        Field(
            "Traffic this interface accepts. Without it everything inside the network; with it only the listed traffic."
        ),
    ] = None


class Toleration(Struct):
    """A taint that does not drive the instance away, or only after a while."""

    key: Annotated[str, Field("Key of the taint; empty with Exists means every taint.")] = ""
    operator: Annotated[Literal["Equal", "Exists"], Field("How the taint is compared; by default Equal.")] = "Equal"
    value: Annotated[str, Field("Value of the taint, for Equal.")] = ""
    effect: Annotated[str, Field("NoSchedule, PreferNoSchedule or NoExecute; empty means all.")] = ""
    toleration_seconds: Annotated[
        int | None, Field("How long a NoExecute taint is tolerated; unset is forever.", format="int64")
    ] = None


class InstanceTemplateSpec(Struct):
    """The spec of an instance."""

    runtime: Annotated[InstanceRuntime, Field("The runtime and its resources.")]
    network_interfaces: Annotated[
        list[NetworkInterface],
        Field(
            "Network interfaces in order; by default one, on the Network `default`.",
            key="name",
            min_items=1,
            max_items=100,
            filled=[{"name": "eth0", "network": {"name": "default"}}],
        ),
    ]
    volumes: Annotated[
        list[Volume], Field("Volumes that containers or the virtual machine attach.", key="name", max_items=250)
    ] = []
    tolerations: Annotated[
        list[Toleration],
        Field("Taints that are tolerated. Loss of a node is tolerated for 300 s unless said here.", max_items=250),
    ] = []
    priority_class_name: Annotated[
        str, Field("PriorityClass of the instances: less important pods end for them where there is no room.")
    ] = ""


class TemplateMeta(Struct):
    """Metadata that every instance made from the template gets."""

    labels: Annotated[Labels, Field("Labels of each instance. A change may replace instances.")] = {}
    annotations: Annotated[Labels, Field("Annotations of each instance. A change may replace instances.")] = {}


class InstanceTemplate(Struct, kw_only=True):
    """The template of an instance. `labels` and `annotations` may also stand directly in the template."""

    metadata: Annotated[TemplateMeta | None, Field("Labels and annotations of each instance.")] = None
    labels: Annotated[Labels, Field("Shorthand for metadata.labels; stored there.")] = {}
    annotations: Annotated[Labels, Field("Shorthand for metadata.annotations; stored there.")] = {}
    spec: Annotated[InstanceTemplateSpec, Field("The specification of each instance.")]


class SchedulingGate(Struct):
    """A reason why the instance may not start yet."""

    name: Annotated[str, Field("Network, or Quota.")]


class InstanceController(Struct):
    """The deployment controller's data about the instance."""

    template_hash: Annotated[str, Field("Revision of the template that the instance was made from.")]
    scheduling_gates: Annotated[
        list[SchedulingGate], Field("Conditions that must be met before the instance starts.", key="name")
    ] = []
    running: Annotated[
        bool, Field("The template's `running` that was last applied to the instance's machine; by default true.")
    ] = True


class InstanceSpec(InstanceTemplateSpec):
    """One instance: the template's content, and where it goes."""

    location: Annotated[LocationReference | None, Field("Where the instance runs.")] = None
    controller: Annotated[InstanceController | None, Field("Written by the deployment's controller.")] = None


class InterfaceAssignments(Struct):
    """The addresses most users ask for."""

    network_ip: Annotated[str, Field("First address inside the network.")] = msgspec.field(name="networkIP", default="")
    external_ip: Annotated[str, Field("Address the outside sees.")] = msgspec.field(name="externalIP", default="")


class InterfaceAddress(Struct):
    """One address of an interface."""

    family: Annotated[IPFamily, Field("Its family.")]
    address: Annotated[str, Field("The address with its prefix length.")]
    gateway: Annotated[str, Field("Next hop.")] = ""
    address_class: Annotated[str, Field("Class it was requested under.")] = msgspec.field(name="class", default="")


class InterfaceStatus(Struct):
    """An interface as it is."""

    name: Annotated[str, Field("Name inside the instance.")]
    assignments: Annotated[InterfaceAssignments | None, Field("The addresses most users ask for.")] = None
    addresses: Annotated[list[InterfaceAddress], Field("Every address.")] = []
    mac_address: Annotated[str, Field("Hardware address.")] = ""
    conditions: Conditions = []


class ObservedController(Struct):
    """The running revision."""

    observed_template_hash: Annotated[str, Field("Revision of the template that is running.")] = ""


class InstanceStatus(Struct):
    """The instance as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    controller: Annotated[ObservedController | None, Field("Which revision is running.")] = None
    network_interfaces: Annotated[list[InterfaceStatus], Field("Interfaces as they are.", key="name")] = []
    node_name: Annotated[str, Field("Node it runs on.")] = ""
    restarts: Annotated[int, Field("How often its containers were restarted.", minimum=0)] = counted()
    qos_class: Annotated[str, Field("Guaranteed, Burstable or BestEffort.")] = ""
    summary: Annotated[Summary | None, Field("The instance in a few words.")] = None


class Instance(Kind):
    """One running sandbox or virtual machine. Instances are made by Workloads, never by users."""

    spec: Annotated[InstanceSpec, Field("The desired state of the instance.")]
    status: Annotated[InstanceStatus | None, Field("The instance as it is.")] = None
