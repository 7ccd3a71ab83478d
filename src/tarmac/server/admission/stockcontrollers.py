"""StockControllers: warns about objects of Kubernetes' own kinds that nothing carries out.

kube-controller-manager runs Deployments, Jobs and their like. It holds a Lease while it leads, so an old Lease or none
means that it does not run, wherever it was started.
"""

from __future__ import annotations

from typing import Final

from tarmac.api.resource import Resource
from tarmac.base.clock import Clock, parse_rfc3339
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.podtemplates import POD_TEMPLATES
from tarmac.server.reader import Reader

_LEASES: Final = "coordination.k8s.io/leases"
_LEASE: Final = "kube-system/kube-controller-manager"
_MAX_AGE: Final = 60.0  # seconds; four times the duration of the Lease, which a restart may let pass
_KINDS: Final = frozenset({*POD_TEMPLATES, "autoscaling/horizontalpodautoscalers"})


class StockControllers(AdmissionPlugin):
    """Warns at creation while no kube-controller-manager leads."""

    name = "StockControllers"

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in _KINDS and subresource == "" and operation == "CREATE"

    def validate(self, attributes: Attributes) -> None:
        if not self._leads():
            attributes.warnings.append(
                f"no controller runs {attributes.resource.plural} here: start `tarmac up` with "
                "--with-kubernetes-controllers, or describe it as a Workload"
            )

    def _leads(self) -> bool:
        lease = self._reader.get(_LEASES, _LEASE)
        renewed = ((lease or {}).get("spec") or {}).get("renewTime")
        return renewed is not None and self._clock.now() - parse_rfc3339(renewed) < _MAX_AGE
