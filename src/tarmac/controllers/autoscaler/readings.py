"""Readings of one deployment's metrics, as input of the scaling decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tarmac.api.compute.names import LABEL_DEPLOYMENT_UID
from tarmac.api.compute.scaling import MetricSpec, ResourceMetric
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.base.quantity import Quantity
from tarmac.controllers.metricsources import ExternalQuery, InstanceUsage, MetricsSource, NoMetric
from tarmac.decide.instances import InstanceView
from tarmac.decide.scaling import ExternalReading, InstanceUse, Reading, ResourceReading, Unreadable, Use
from tarmac.decide.scaling.queries import prometheus_query

FRESH_SECONDS = 90.0


class Readings:
    """Reads the metrics of one deployment at one moment. `reported` collects the instances that have ever reported."""

    def __init__(
        self,
        source: MetricsSource,
        deployment: WorkloadDeployment,
        instances: Sequence[InstanceView],
        requests: Mapping[str, Quantity],
        reported: set[str],
        now: float,
    ) -> None:
        self._source = source
        self._deployment = deployment
        self._instances = instances
        self._requests = requests
        self._reported = reported
        self._now = now
        self._usage: Mapping[str, InstanceUsage] | None = None

    async def all(self, metrics: Iterable[MetricSpec], url: str) -> list[Reading]:
        """Return one reading for each metric, in order."""
        return [await self._one(metric, url) for metric in metrics]

    async def _one(self, metric: MetricSpec, url: str) -> Reading:
        try:
            if metric.resource is not None:
                return await self._resource(metric.resource)
            assert metric.external is not None, "admission lets no metric without a source through"
            query = prometheus_query(metric.external.metric, self._deployment.spec.city_code)
            values = await self._source.external(ExternalQuery(query, self._location, url))
        except NoMetric as error:
            return Unreadable(str(error))
        serving = [each for each in self._instances if not each.stopped]
        stopped = sum(each.stopped and not each.deleting for each in self._instances)
        return ExternalReading(values, sum(each.ready for each in serving), stopped)

    @property
    def _location(self) -> str:
        status = self._deployment.status
        return status.location.name if status is not None and status.location is not None else ""

    async def _resource(self, metric: ResourceMetric) -> ResourceReading:
        # Read once per pass: two metrics of one decision must not be of different moments.
        if self._usage is None:
            own = self._deployment.metadata
            self._usage = await self._source.usage(own.namespace, f"{LABEL_DEPLOYMENT_UID}={own.uid}")
        request = self._requests[metric.name].milli() if metric.name in self._requests else 0
        return ResourceReading([self._use(instance, metric.name, request) for instance in self._instances])

    def _use(self, instance: InstanceView, name: str, request: int) -> InstanceUse:
        usage = (self._usage or {}).get(instance.name)
        # Outdated usage counts as none: the deployment would be scaled by a load that has passed.
        fresh = usage is not None and self._now - usage.measured <= FRESH_SECONDS and name in usage.amounts
        amount = usage.amounts[name] if usage is not None and fresh else None
        if amount is not None:
            self._reported.add(instance.name)
        if instance.deleting:
            return InstanceUse(amount, request, Use.GONE)
        if instance.stopped:
            return InstanceUse(None, request, Use.STOPPED)
        known = instance.ready and instance.name in self._reported
        return InstanceUse(amount, request, Use.COUNTED if known else Use.STARTING)
