"""The deployments of every Workload, decoded once per version.

A pass over a Workload reads all its deployments; decoding a thousand objects takes longer than all decisions about
them. Equal templates are shared in memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tarmac.api.compute.names import LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import WorkloadDeployment, WorkloadDeploymentSpec
from tarmac.client.cache import Item
from tarmac.client.informer import Informer


class DeploymentsByWorkload:
    """Deployments by the uid of their Workload, then by name. Objects that cannot be decoded are left out."""

    def __init__(self, informer: Informer[WorkloadDeployment]) -> None:
        self._of: dict[str, dict[str, WorkloadDeployment]] = {}
        informer.on_change(self._changed)

    def of(self, workload_uid: str) -> Mapping[str, WorkloadDeployment]:
        """Return the deployments of one Workload. A live view: do not hold it over an await."""
        return self._of.get(workload_uid, {})

    def _changed(self, old: Item[WorkloadDeployment] | None, new: Item[WorkloadDeployment] | None) -> None:
        # Before the new state is decoded: if that fails, the old one must not remain.
        known = self._drop(_workload_of(old), old.metadata.name) if old is not None else None
        uid = _workload_of(new) if new is not None else ""
        if new is not None and uid:
            siblings = self._of.setdefault(uid, {})
            template_of = known or next(iter(siblings.values()), None)
            try:
                siblings[new.metadata.name] = _sharing(new.object, template_of)
            finally:
                if not siblings:
                    del self._of[uid]

    def _drop(self, uid: str, name: str) -> WorkloadDeployment | None:
        siblings = self._of.get(uid)
        if siblings is None:
            return None
        known = siblings.pop(name, None)
        if not siblings:
            del self._of[uid]
        return known


def _sharing(deployment: WorkloadDeployment, other: WorkloadDeployment | None) -> WorkloadDeployment:
    """Return the deployment, with the other's template object where the two are equal."""
    if other is None or other.spec.template != deployment.spec.template:
        return deployment
    spec: WorkloadDeploymentSpec = msgspec.structs.replace(deployment.spec, template=other.spec.template)
    return msgspec.structs.replace(deployment, spec=spec)


def _workload_of(item: Item[WorkloadDeployment]) -> str:
    return (item.metadata.labels or {}).get(LABEL_WORKLOAD_UID, "")
