"""StockControllers: warns about objects of Kubernetes' own kinds while no kube-controller-manager runs them."""

from __future__ import annotations

from typing import Final

from tarmac.api.resource import Resource
from tarmac.base.clock import Clock
from tarmac.decide.stockcontrollers import LEASE, START, leads
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podtemplates import POD_TEMPLATES
from tarmac.server.reader import Reader

_LEASES: Final = "coordination.k8s.io/leases"
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
        if not leads(self._reader.get(_LEASES, LEASE), self._clock.now()):
            attributes.warnings.append(f"no controller runs {attributes.resource.plural} here: {START}")
