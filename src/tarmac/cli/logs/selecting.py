"""Resolves the command line to pods and containers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tarmac.api.compute.names import LABEL_CITY_CODE, LABEL_DEPLOYMENT_NAME, LABEL_WORKLOAD_NAME
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.schema import JsonObject
from tarmac.cli.logs.lines import LogSource
from tarmac.cli.verbs.objectnames import BadObject, Json, parse_object
from tarmac.client.targets.untyped import DEPLOYMENTS, WORKLOADS

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_BY_LABEL: Final = {WORKLOADS.plural: LABEL_WORKLOAD_NAME, DEPLOYMENTS.plural: LABEL_DEPLOYMENT_NAME}
_BY_NAME: Final = ("instances", "pods")


@dataclass(frozen=True, slots=True)
class Selection:
    """Pods by label or name. `owner` and `name` are the named object, if any."""

    labels: str = ""
    fields: str = ""
    owner: Json | None = None
    name: str = ""

    @property
    def title(self) -> str:
        """Its name in messages when nothing matches."""
        return f"{self.owner.kind.lower()} {self.name}" if self.owner is not None else f"-l {self.labels}"


def selections(words: Sequence[str], selector: str) -> list[Selection]:
    """Return the selections. Raises BadObject."""
    if bool(words) == bool(selector):
        raise BadObject("no logs selected; give NAME, wl|wd|instance|pod/NAME, or pods by their labels with -l")
    return [Selection(labels=selector)] if selector else [_selection(word) for word in dict.fromkeys(words)]


def _selection(word: str) -> Selection:
    target, name = parse_object(["workload", word] if "/" not in word else [word])
    if label := _BY_LABEL.get(target.plural):
        return Selection(labels=f"{label}={name}", owner=target, name=name)
    if target.plural in _BY_NAME:
        return Selection(fields=f"metadata.name={name}", owner=target, name=name)
    raise BadObject(f"a {target.kind} has no log; name a workload, a workloaddeployment, an instance or a pod")


@dataclass(frozen=True, slots=True)
class LogSelection:
    """The selected pods and containers."""

    container: str = ""
    all_containers: bool = False
    cities: Collection[str] = ()

    def sources(self, pod: JsonObject, cities: Mapping[str, str]) -> list[LogSource]:
        """Return the selected logs of a pod; `cities` by node, for pods without an instance."""
        own, node = pod["metadata"], pod["spec"].get("nodeName") or ""
        city = (own.get("labels") or {}).get(LABEL_CITY_CODE) or cities.get(node, "")
        if self.cities and city not in self.cities:
            return []
        return [LogSource(city, own["name"], each, own["namespace"], node) for each in self._containers(pod)]

    def _containers(self, pod: JsonObject) -> list[str]:
        names = [each["name"] for field in _CONTAINERS for each in pod["spec"].get(field) or ()]
        if self.all_containers:
            return names
        if self.container:
            return [self.container] if self.container in names else []
        usual = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER, "")
        return [usual if usual in names else pod["spec"]["containers"][0]["name"]]


def needs_nodes(pods: Sequence[JsonObject]) -> bool:
    """True if the city of a pod is only known from its node."""
    return any(LABEL_CITY_CODE not in (each["metadata"].get("labels") or {}) for each in pods)


def has_begun(pod: JsonObject, container: str) -> bool:
    """True if a container has run, so that it has a log."""
    states = [each.get(state) or {} for _, each in _statuses(pod, container) for state in ("state", "lastState")]
    return any(state.keys() - {"waiting"} for state in states)


def is_over(pod: JsonObject, container: str) -> bool:
    """True if a container will write no more."""
    if is_terminal(pod):
        return True
    policy = pod["spec"].get("restartPolicy", "Always")
    for field, each in _statuses(pod, container):
        ended = (each.get("state") or {}).get("terminated")
        once = field != "containerStatuses" or policy == "OnFailure"
        if ended is not None and (policy == "Never" or (once and ended.get("exitCode") == 0)):
            return True
    return False


def _statuses(pod: JsonObject, container: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the statuses of a container, with their field of the pod's status."""
    for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for each in (pod.get("status") or {}).get(field) or ():
            if each["name"] == container:
                yield field, each
