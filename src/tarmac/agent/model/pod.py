"""Read access to a decoded Pod.

The object is shared with caches and must not be modified. Containers are their decoded specs; a *sidecar* is an init
container with restart policy Always.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.schema import JsonObject
from tarmac.base.duration import MAX_SECONDS
from tarmac.client.eventrecorder import InvolvedObject

CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_HASH = "kubernetes.io/config.hash"
DEFAULT_GRACE = 30

_SYSTEM_CRITICAL = 2_000_000_000


class AgentPod:
    """One version of one pod."""

    def __init__(self, raw: JsonObject) -> None:
        self.raw = raw
        self.metadata: JsonObject = raw["metadata"]
        self.spec: JsonObject = raw["spec"]
        self.status: JsonObject = raw.get("status") or {}
        self.uid: str = self.metadata["uid"]
        self.name: str = self.metadata["name"]
        self.namespace: str = self.metadata["namespace"]
        self.containers: list[JsonObject] = self.spec.get("containers") or []
        self.init_containers: list[JsonObject] = self.spec.get("initContainers") or []
        self.ephemeral_containers: list[JsonObject] = self.spec.get("ephemeralContainers") or []

    def __str__(self) -> str:
        """Return the pod's name in kubelet's messages."""
        return f"{self.name}_{self.namespace}({self.uid})"

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def service_account(self) -> str:
        """The service account of its processes."""
        return self.spec.get("serviceAccountName") or "default"

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return self.metadata.get("annotations") or {}

    @property
    def generation(self) -> int:
        """The generation of the spec."""
        return self.metadata.get("generation") or 0

    @property
    def deleted(self) -> bool:
        """True if its deletion was requested."""
        return self.metadata.get("deletionTimestamp") is not None

    @property
    def grace(self) -> int:
        """The grace period of its containers in seconds."""
        asked = self.metadata.get("deletionGracePeriodSeconds") if self.deleted else None
        if asked is None:
            asked = self.spec.get("terminationGracePeriodSeconds")
        return DEFAULT_GRACE if asked is None else min(asked, MAX_SECONDS)

    @property
    def restart_policy(self) -> str:
        """The restart policy of the pod; containers may have their own."""
        return self.spec.get("restartPolicy") or "Always"

    @property
    def host_network(self) -> bool:
        """True if it uses the node's network namespace."""
        return bool(self.spec.get("hostNetwork"))

    @property
    def static(self) -> bool:
        """True if it comes from a manifest on the node; then only its mirror is in the API."""
        return self.annotations.get(CONFIG_SOURCE, "api") != "api"

    @property
    def critical(self) -> bool:
        """True for static and system-critical pods, which the node ends last."""
        return self.static or (self.spec.get("priority") or 0) >= _SYSTEM_CRITICAL

    @property
    def finished(self) -> bool:
        """True if its phase in the API is Succeeded or Failed."""
        return self.status.get("phase") in TERMINAL

    def every_container(self) -> Iterator[JsonObject]:
        """Yield init, plain and ephemeral containers."""
        yield from self.init_containers
        yield from self.containers
        yield from self.ephemeral_containers

    def container(self, name: str) -> JsonObject | None:
        """Return the spec of a container of any kind."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, JsonObject]:
        return {container["name"]: container for container in self.every_container()}

    @cached_property
    def reference(self) -> InvolvedObject:
        """The reference for events."""
        return InvolvedObject("v1", "Pod", self.name, self.namespace, self.uid)

    def container_reference(self, name: str) -> InvolvedObject:
        """Return the reference for events of a container."""
        for field in ("containers", "initContainers", "ephemeralContainers"):
            if any(container["name"] == name for container in self.spec.get(field) or ()):
                return self.reference._replace(field_path=f"spec.{field}{{{name}}}")
        return self.reference


def is_sidecar(container: JsonObject) -> bool:
    """Return True if an init container is a sidecar."""
    return container.get("restartPolicy") == "Always"


def restarts_on_failure(pod: AgentPod, container: JsonObject) -> bool:
    """Return True if a container killed while running restarts. Exit code rules do not apply."""
    return (container.get("restartPolicy") or pod.restart_policy) != "Never"


def restarts_after(pod: AgentPod, container: JsonObject, exit_code: int) -> bool:
    """Return True if a container that exited with this code restarts."""
    policy = container.get("restartPolicy")
    if policy and any(_applies(rule, exit_code) for rule in container.get("restartPolicyRules") or ()):
        return True
    policy = policy or pod.restart_policy
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _applies(rule: JsonObject, exit_code: int) -> bool:
    codes = rule.get("exitCodes")
    if codes is None or rule.get("action") != "Restart":
        return False
    listed = exit_code in (codes.get("values") or ())
    return listed if codes.get("operator") == "In" else not listed
