"""The Pod of an Instance: same name, same namespace, owned by it, and held to its Location.

Security is the platform's, not the image's: the default system-call filter, no way to more privileges, no raw
sockets, no service-account token. A container may be given less, and what its manifest explicitly asks back.
A virtual machine is a Pod of the class `vm` with one container; the node reads the machine from the Instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.api.compute.instance import Container, Instance, Port, SecurityContext, VirtualMachine
from tarmac.api.compute.names import ANNOTATION_RUNTIME_CLASS, API_VERSION
from tarmac.api.declare import encode
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS, SANDBOX_CLASS
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.decide.children.resources import everything, of_container, of_pod
from tarmac.decide.children.volumes import attachments, pod_volumes

SCHEDULER = "tarmac"
MACHINE_CONTAINER = "machine"
_RAW_SOCKETS = "NET_RAW"
_DEFAULT_FILTER = {"type": "RuntimeDefault"}


def pod_of(instance: Instance, whole: ResourceList) -> JsonObject:
    """The Pod, ready to be created. `whole` is what the instance has."""
    machine = instance.spec.runtime.virtual_machine
    content = _machine(instance, machine, whole) if machine is not None else _sandbox(instance, whole)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(instance),
        "spec": {
            **content,
            **_stated({"priorityClassName": instance.spec.priority_class_name}),
            "volumes": pod_volumes(instance),
            "schedulerName": SCHEDULER,
            "nodeSelector": {LABEL_LOCATION: instance.spec.location.name} if instance.spec.location else {},
            "tolerations": [encode(toleration) for toleration in instance.spec.tolerations],
            "restartPolicy": "Always",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
        },
    }


def _metadata(instance: Instance) -> JsonObject:
    own = instance.metadata
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
        "annotations": own.annotations,
        "ownerReferences": [owner],
    }


def _sandbox(instance: Instance, whole: ResourceList) -> JsonObject:
    sandbox = instance.spec.runtime.sandbox
    assert sandbox is not None, "a runtime is a sandbox or a machine"
    alone = len(sandbox.containers) == 1 and not sandbox.init_containers
    security: JsonObject = {"seccompProfile": _DEFAULT_FILTER, "sysctls": [encode(each) for each in sandbox.sysctls]}
    found: JsonObject = {
        "runtimeClassName": instance.metadata.annotations.get(ANNOTATION_RUNTIME_CLASS, SANDBOX_CLASS),
        "containers": [_container(each, instance, whole if alone else None) for each in sandbox.containers],
        "initContainers": [_container(each, instance, None) for each in sandbox.init_containers],
        "imagePullSecrets": [encode(each) for each in sandbox.image_pull_secrets],
        "securityContext": _stated(security),
    }
    if sandbox.termination_grace_period_seconds is not None:
        found["terminationGracePeriodSeconds"] = sandbox.termination_grace_period_seconds
    if not alone:
        found["resources"] = of_pod(whole)
    return _stated(found)


def _machine(instance: Instance, machine: VirtualMachine, whole: ResourceList) -> JsonObject:
    container = {
        "name": MACHINE_CONTAINER,
        "image": _boot_image(instance, machine),
        "ports": [_port(each) for each in machine.ports],
        "resources": everything(whole),
        **attachments(machine.volume_attachments, instance.spec, machine=True),
        "securityContext": _security(None),
    }
    security = {"seccompProfile": _DEFAULT_FILTER}
    return {"runtimeClassName": MACHINE_CLASS, "containers": [_stated(container)], "securityContext": security}


def _boot_image(instance: Instance, machine: VirtualMachine) -> str:
    boot = machine.volume_attachments[0].name
    disk = next(volume.disk for volume in instance.spec.volumes if volume.name == boot)
    populator = disk.template.spec.populator if disk else None
    assert populator is not None, "a machine boots from an image"
    assert populator.image is not None, "a machine boots from an image"
    return populator.image.name


def _container(container: Container, instance: Instance, whole: ResourceList | None) -> JsonObject:
    return _stated(
        {
            "name": container.name,
            "image": container.image,
            "command": container.command,
            "args": container.args,
            "env": [encode(each) for each in container.env],
            "envFrom": [encode(each) for each in container.env_from],
            "ports": [_port(each) for each in container.ports],
            "resources": of_container(container) if whole is None else everything(whole),
            **attachments(container.volume_attachments, instance.spec),
            # So that the last words of a crash are in the Pod's status, for `why` and for those who may not read logs.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": _security(container.security_context),
            "workingDir": container.working_dir,
            "imagePullPolicy": container.image_pull_policy or "",
            **_watched(container),
        }
    )


def _watched(container: Container) -> JsonObject:
    stated = {
        "readinessProbe": container.readiness_probe,
        "livenessProbe": container.liveness_probe,
        "startupProbe": container.startup_probe,
        "lifecycle": container.lifecycle,
    }
    return {name: encode(value) for name, value in stated.items() if value is not None}


def _port(port: Port) -> JsonObject:
    return {"name": port.name, "containerPort": port.port, "protocol": port.protocol}


def _security(stated: SecurityContext | None) -> JsonObject:
    stated = stated or SecurityContext()
    wanted = stated.capabilities
    add, drop = (wanted.add, wanted.drop) if wanted else ([], [])
    if _RAW_SOCKETS not in add and "ALL" not in drop:
        drop = [*(each for each in drop if each != _RAW_SOCKETS), _RAW_SOCKETS]
    found: JsonObject = {
        "allowPrivilegeEscalation": bool(stated.allow_privilege_escalation),
        "capabilities": _stated({"add": add, "drop": drop}),
    }
    if stated.seccomp_profile is not None:
        found["seccompProfile"] = encode(stated.seccomp_profile)
    return found


def _stated(fields: Mapping[str, Any]) -> JsonObject:
    """Only what says something."""
    return {name: value for name, value in fields.items() if value not in ({}, [], "")}
