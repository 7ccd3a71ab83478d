"""The served resources of compute.datumapis.com: columns, subresources, rules."""

from __future__ import annotations

from tarmac.api.checks import mapping, objects
from tarmac.api.columns import AGE, NAME, column, computed, condition, join
from tarmac.api.compute.explanations import HISTORY, PLAN, WHY
from tarmac.api.compute.instance import Instance
from tarmac.api.compute.instancetype import InstanceType
from tarmac.api.compute.lookup import BuiltIn, Lookup
from tarmac.api.compute.machineaccess import (
    InstanceConsoleOptions,
    InstancePower,
    InstanceRecordings,
    InstanceVncOptions,
)
from tarmac.api.compute.machineimage import LocalMachineImage, MachineImage
from tarmac.api.compute.names import API_VERSION, LABEL_CITY_CODE
from tarmac.api.compute.scaling import replicas_path
from tarmac.api.compute.strategies import (
    InstanceStrategy,
    InstanceTypeStrategy,
    LocalMachineImageStrategy,
    MachineImageStrategy,
    WorkloadDeploymentStrategy,
    WorkloadStrategy,
)
from tarmac.api.compute.validation.attachments import boot_image
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.api.declare import declare, schema_of
from tarmac.api.resource import Resource, Subresource
from tarmac.api.schema import JsonObject
from tarmac.base.names import dns1123_label

# Table cells that a single path cannot compute.


def images_of(workload: JsonObject) -> str | None:
    """Return the container images of a Workload, or the image of the machine's boot disk."""
    spec = mapping(workload, "spec", "template", "spec")
    images = [each.get("image", "") for each in objects(spec, "runtime", "sandbox", "containers")]
    return ",".join(images) or boot_image(spec) or None


def runtime_of(instance: JsonObject) -> str:
    """Return the runtime of an Instance: sandbox or machine."""
    return "machine" if mapping(instance, "spec", "runtime").get("virtualMachine") is not None else "sandbox"


def source_of(image: JsonObject) -> str:
    """Return the kind of a MachineImage's source: file, url, or none."""
    source = mapping(image, "spec", "source")
    return next((name for name in ("file", "url") if source.get(name)), "<none>")


_OWN = API_VERSION.split("/")
REACHING_IN = (
    Subresource(
        "console", "InstanceConsoleOptions", ("create",), *_OWN, answer=lambda: schema_of(InstanceConsoleOptions)
    ),
    Subresource("power", "InstancePower", ("create",), *_OWN, answer=lambda: schema_of(InstancePower)),
    Subresource("recordings", "InstanceRecordings", ("get",), *_OWN, answer=lambda: schema_of(InstanceRecordings)),
    Subresource("vnc", "InstanceVncOptions", ("create",), *_OWN, answer=lambda: schema_of(InstanceVncOptions)),
)

_FIRST_INTERFACE = ".status.networkInterfaces[0].assignments"
_IMAGES = ".spec.template.spec.runtime.sandbox.containers[*].image"

_READY = column("Ready", ".status.summary.ready", "Instances that are ready, of those wanted.")
_STATUS = column("Status", ".status.summary.status", "The state in one word.")
_REASON = column("Reason", ".status.summary.reason", "The most useful reason when not all is well.")
_REVISION = column("Revision", ".status.revision", "Revision of the newest template.", wide=True)

_WORKLOAD_COLUMNS = (
    NAME,
    _READY,
    column("Up-to-date", ".status.updatedReplicas", "Instances of the newest template.", type="integer"),
    column("Cities", ".status.summary.cities", "Cities with ready instances, of those wanted."),
    _STATUS,
    _REASON,
    AGE,
    join("Placements", ".spec.placements[*].name", "Names of the placements.", wide=True),
    column("Desired", ".status.desiredReplicas", "Instances wanted.", type="integer", wide=True),
    column("Revision", ".status.rollout.revision", "Number of the newest revision.", type="integer", wide=True),
    computed("Image", images_of, _IMAGES, "Images of the containers, or of the machine's boot disk.", wide=True),
)
_DEPLOYMENT_COLUMNS = (
    NAME,
    column("City", ".spec.cityCode", "The city it is in."),
    _READY,
    column("Desired", ".status.desiredReplicas", "Instances wanted.", type="integer"),
    _STATUS,
    _REASON,
    AGE,
    column("Location", ".status.location.name", "The Location it was given.", wide=True),
    _REVISION,
)
_INSTANCE_COLUMNS = (
    NAME,
    computed(
        "City",
        lambda obj: obj["metadata"].get("labels", {}).get(LABEL_CITY_CODE),
        r".metadata.labels.compute\.datumapis\.com/city-code",
        "The city it is in.",
    ),
    column("Node", ".status.nodeName", "The node it runs on."),
    _STATUS,
    column("Restarts", ".status.restarts", "How often its containers were restarted.", type="integer"),
    column("IP", f"{_FIRST_INTERFACE}.networkIP", "Its first address."),
    AGE,
    column("Egress-IP", f"{_FIRST_INTERFACE}.externalIP", "The address the outside sees.", wide=True),
    column("Type", ".spec.runtime.resources.instanceType", "Its size.", wide=True),
    column("QoS", ".status.qosClass", "Its quality of service.", wide=True),
    computed("Runtime", runtime_of, None, "The runtime: a sandbox of containers, or a machine.", wide=True),
)
_INSTANCE_TYPE_COLUMNS = (
    NAME,
    column("Phase", ".spec.lifecycle.phase", "Whether it may still be used."),
    column("CPU", ".spec.resources.cpu", "Processors."),
    column("Memory", ".spec.resources.memory", "Memory."),
    condition("Ready", "Ready", "Whether it is usable.", wide=True),
    AGE,
)
_MACHINE_IMAGE_COLUMNS = (
    NAME,
    column("Format", ".spec.format", "Format of its file."),
    column("Size", ".spec.size", "Smallest and default size of a disk made from it."),
    computed("Source", source_of, None, "How it is to be had: file, url, or not yet."),
    column("Phase", ".spec.lifecycle.phase", "Whether it may still be used."),
    AGE,
)

_LOCAL_MACHINE_IMAGE_COLUMNS = (
    NAME,
    column("Format", ".spec.format", "Format of its file."),
    column("Size", ".spec.size", "Smallest and default size of a disk made from it."),
    column("URL", ".spec.source.url", "Where nodes fetch it.", wide=True),
    column("Repository", ".spec.source.repository", "The repository that it was uploaded to.", wide=True),
    AGE,
)


def resources(lookup: Lookup | None = None) -> tuple[Resource, ...]:
    """Return the served resources of the group.

    Without a lookup, validation has the built-in catalogues and no places.
    """
    lookup = lookup or BuiltIn()
    return (
        declare(
            Workload,
            API_VERSION,
            "workloads",
            strategy=WorkloadStrategy(lookup),
            columns=_WORKLOAD_COLUMNS,
            short_names=("wl",),
            categories=("tarmac", "all"),
            validate_name=dns1123_label,
            scaled_at=replicas_path,
            subresources=(HISTORY, PLAN, WHY),
        ),
        declare(
            WorkloadDeployment,
            API_VERSION,
            "workloaddeployments",
            strategy=WorkloadDeploymentStrategy(lookup),
            columns=_DEPLOYMENT_COLUMNS,
            short_names=("wd",),
            scale=(".spec.replicas", ".status.replicas", ".status.selector"),
            subresources=(WHY,),
        ),
        declare(
            Instance,
            API_VERSION,
            "instances",
            strategy=InstanceStrategy(lookup),
            columns=_INSTANCE_COLUMNS,
            short_names=("inst",),
            subresources=(WHY, *REACHING_IN),
        ),
        declare(
            InstanceType,
            API_VERSION,
            "instancetypes",
            strategy=InstanceTypeStrategy(lookup),
            columns=_INSTANCE_TYPE_COLUMNS,
            short_names=("it",),
            namespaced=False,
        ),
        declare(
            MachineImage,
            API_VERSION,
            "machineimages",
            strategy=MachineImageStrategy(lookup),
            columns=_MACHINE_IMAGE_COLUMNS,
            short_names=("mi",),
            namespaced=False,
        ),
        declare(
            LocalMachineImage,
            API_VERSION,
            "localmachineimages",
            strategy=LocalMachineImageStrategy(),
            columns=_LOCAL_MACHINE_IMAGE_COLUMNS,
            short_names=("lmi",),
        ),
    )
