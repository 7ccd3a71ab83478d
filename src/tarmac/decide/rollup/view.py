"""The view of a WorkloadDeployment that its Workload's status is computed from."""

from __future__ import annotations

from dataclasses import dataclass, field

from tarmac.api.compute.names import LABEL_MOVED_FROM
from tarmac.api.compute.workload import Counters, WorkloadDeployment
from tarmac.api.shared import Condition
from tarmac.decide import reasons
from tarmac.decide.rollout import desired_replicas
from tarmac.decide.rollout.city import revision_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentView:
    """One deployment. `trouble` is the reason in its summary, if there is one.

    `outdated`: the newest revision has not reached it, so none of its instances counts as updated.
    """

    city: str
    outdated: bool = False
    counters: Counters = field(default_factory=Counters)
    available: Condition | None = None
    progressing: Condition | None = None
    trouble: str = ""
    location: str = ""
    deleting: bool = False

    @staticmethod
    def of(deployment: WorkloadDeployment, newest: str, *, leaving: bool = False) -> DeploymentView:
        """Return the view of a decoded object. A Progressing condition about an older generation is replaced."""
        status, revision = deployment.status, revision_of(deployment)
        conditions = {each.type: each for each in status.conditions} if status else {}
        if status is not None and status.observed_generation < deployment.metadata.generation:
            conditions["Progressing"] = _begun(deployment, rolling=status.revision != revision)
        return DeploymentView(
            city=deployment.spec.city_code,
            outdated=revision != newest,
            counters=_counters(deployment, outdated=revision != newest),
            available=conditions.get("Available"),
            progressing=conditions.get("Progressing"),
            trouble=status.summary.reason if status and status.summary else "",
            location=status.location.name if status and status.location else "",
            deleting=leaving or deployment.metadata.deletion_timestamp is not None,
        )


def _wanted(deployment: WorkloadDeployment) -> int:
    return desired_replicas(deployment.spec.scale_settings, deployment.spec.replicas)


def _counters(deployment: WorkloadDeployment, *, outdated: bool) -> Counters:
    """Return the deployment's contribution to its Workload.

    Moved instances count as desired once, in the deployment that they came from.
    """
    status, moved = deployment.status, LABEL_MOVED_FROM in deployment.metadata.labels
    if status is None:
        return Counters(desired_replicas=0 if moved else _wanted(deployment))
    return Counters(
        replicas=status.replicas,
        current_replicas=0 if outdated else status.current_replicas,
        desired_replicas=0 if moved else status.desired_replicas,
        ready_replicas=status.ready_replicas,
        updated_replicas=0 if outdated else status.updated_replicas,
        stopped_replicas=status.stopped_replicas,
    )


def _begun(deployment: WorkloadDeployment, *, rolling: bool) -> Condition:
    """Return a provisional Progressing condition for a specification that the deployment has not observed yet."""
    reason = reasons.NEW_REVISION if rolling else reasons.SCALING
    return Condition("Progressing", "True", reason, f"{deployment.spec.city_code}: its specification has changed")
