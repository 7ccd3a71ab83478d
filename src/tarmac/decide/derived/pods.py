"""The Pod of an Instance: same name, same namespace, owned by it, and restricted to its Location.

The platform sets the security, not the image: the default system-call filter, no privilege escalation, no raw sockets,
no service-account token. A manifest may restrict a container further, or explicitly request permissions back. A virtual
machine is a Pod of the class `vm` with one container (`machines`). The Pod is self-contained: the node reads neither
the Instance nor the catalogue, so it needs no permission for them and can restart machines while the server is
unavailable.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.api.compute.instance import Container, Instance
from tarmac.api.compute.names import API_VERSION, MACHINE_ANNOTATIONS
from tarmac.api.declare import encode
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.decide.derived.containerparts import DEFAULT_FILTER, pod_port, probes_of, security_of, stated
from tarmac.decide.derived.containershares import everything, of_container, of_pod
from tarmac.decide.derived.machines import machine_annotations, machine_content, machine_volumes
from tarmac.decide.derived.overhead import runtime_class_of
from tarmac.decide.derived.volumes import attachments, pod_volumes
from tarmac.decide.machineimages import NO_IMAGES, Images

SCHEDULER = "tarmac"


def pod_of(instance: Instance, whole: ResourceList, images: Images = NO_IMAGES, avoid: str = "") -> JsonObject:
    """Return the Pod, ready to be created. `whole` is the instance's size, `images` are the sources of its disks.

    `avoid` names a node that the scheduler takes only when there is no other.
    """
    machine = instance.spec.runtime.virtual_machine
    content = machine_content(instance, machine, whole) if machine is not None else _sandbox(instance, whole)
    notes = machine_annotations(instance, machine, images) if machine is not None else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(instance, notes),
        "spec": {
            **content,
            **stated({"priorityClassName": instance.spec.priority_class_name}),
            **({"affinity": _avoiding(avoid)} if avoid else {}),
            "volumes": [*pod_volumes(instance), *(machine_volumes(machine) if machine is not None else ())],
            "schedulerName": SCHEDULER,
            "nodeSelector": {LABEL_LOCATION: instance.spec.location.name} if instance.spec.location else {},
            "tolerations": [encode(toleration) for toleration in instance.spec.tolerations],
            "restartPolicy": "Always",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
        },
    }


def _avoiding(node: str) -> JsonObject:
    elsewhere = {"key": "metadata.name", "operator": "NotIn", "values": [node]}
    preference = {"weight": 100, "preference": {"matchFields": [elsewhere]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}


def _metadata(instance: Instance, notes: Mapping[str, str]) -> JsonObject:
    """Return the metadata.

    `notes` are a machine's annotations; only the platform may set these, so the Instance's are dropped.
    """
    own = instance.metadata
    annotations = {name: value for name, value in own.annotations.items() if name not in MACHINE_ANNOTATIONS}
    owner = {
        "apiVersion": API_VERSION,
        "kind": "Instance",
        "name": own.name,
        "uid": own.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": own.name,
        "namespace": own.namespace,
        "labels": own.labels,
        "annotations": {**annotations, **notes},
        "ownerReferences": [owner],
    }


def _sandbox(instance: Instance, whole: ResourceList) -> JsonObject:
    sandbox = instance.spec.runtime.sandbox
    assert sandbox is not None, "a runtime is a sandbox or a machine"
    alone = len(sandbox.containers) == 1 and not sandbox.init_containers
    security: JsonObject = {"seccompProfile": DEFAULT_FILTER, "sysctls": [encode(each) for each in sandbox.sysctls]}
    found: JsonObject = {
        "runtimeClassName": runtime_class_of(instance.spec.runtime, instance.metadata.annotations),
        "containers": [_container(each, instance, whole if alone else None) for each in sandbox.containers],
        "initContainers": [_container(each, instance, None) for each in sandbox.init_containers],
        "imagePullSecrets": [encode(each) for each in sandbox.image_pull_secrets],
        "securityContext": stated(security),
    }
    if sandbox.termination_grace_period_seconds is not None:
        found["terminationGracePeriodSeconds"] = sandbox.termination_grace_period_seconds
    if not alone:
        found["resources"] = of_pod(whole)
    return stated(found)


def _container(container: Container, instance: Instance, whole: ResourceList | None) -> JsonObject:
    return stated(
        {
            "name": container.name,
            "image": container.image,
            "command": container.command,
            "args": container.args,
            "env": [encode(each) for each in container.env],
            "envFrom": [encode(each) for each in container.env_from],
            "ports": [pod_port(each) for each in container.ports],
            "resources": of_container(container) if whole is None else everything(whole),
            **attachments(container.volume_attachments, instance.spec),
            # Puts the last log lines of a crash into the Pod's status, for `why` and for users without access to logs.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": security_of(container.security_context),
            "workingDir": container.working_dir,
            "imagePullPolicy": container.image_pull_policy or "",
            **probes_of(container),
        }
    )
