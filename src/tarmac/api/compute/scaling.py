"""The number of instances of a placement in each city, and its autoscaling."""

from __future__ import annotations

from typing import Annotated, Literal

from tarmac.api.checks import mapping, objects
from tarmac.api.declare import Field, Struct
from tarmac.api.schema import JsonObject
from tarmac.api.shared import LabelSelector
from tarmac.api.status import BadRequest
from tarmac.base.quantity import Quantity

TargetType = Literal["Value", "AverageValue", "Utilization"]


class MetricTarget(Struct):
    """Target of the metric. Exactly one amount is set."""

    type: Annotated[TargetType | None, Field("Which amount is set; may be left out.")] = None
    value: Annotated[Quantity | None, Field("The metric as a whole.")] = None
    average_value: Annotated[Quantity | None, Field("The metric divided by the number of instances.")] = None
    average_utilization: Annotated[
        int | None, Field("Percent of the instances' requests, averaged. Resource metrics only.", minimum=1)
    ] = None


class ResourceMetric(Struct):
    """Use of a resource by the instances themselves."""

    name: Annotated[str, Field("cpu, memory, or a collected network metric.")]
    target: Annotated[MetricTarget, Field("The target value.")]


class MetricIdentifier(Struct):
    """A metric in an outside store."""

    name: Annotated[str, Field("Name of the metric.")]
    selector: Annotated[
        LabelSelector | None,
        Field("Labels of the series. {{ context.locality.cityCode }} in a value stands for the deployment's city."),
    ] = None


class ExternalMetric(Struct):
    """A metric from an outside store."""

    metric: Annotated[MetricIdentifier, Field("Which metric.")]
    target: Annotated[MetricTarget, Field("The target value.")]


class MetricSpec(Struct):
    """One signal for scaling. Exactly one source is set; of several signals the largest answer wins."""

    resource: Annotated[ResourceMetric | None, Field("Use of a resource by the instances.")] = None
    external: Annotated[ExternalMetric | None, Field("A metric from an outside store.")] = None


class ScalingPolicy(Struct):
    """A limit of changes in a period."""

    type: Annotated[Literal["Pods", "Percent"], Field("Whether `value` counts instances or percent.")]
    value: Annotated[int, Field("How many.", minimum=1)]
    period_seconds: Annotated[int, Field("Length of the period.", minimum=1, maximum=1800)]


class ScalingRules(Struct):
    """Rules for scaling in one direction."""

    stabilization_window_seconds: Annotated[
        int | None, Field("How far back to look for a safer answer, 0 to 3600.", minimum=0, maximum=3600)
    ] = None
    select_policy: Annotated[
        Literal["Max", "Min", "Disabled"] | None, Field("Which policy wins; Disabled forbids the direction.")
    ] = None
    policies: Annotated[list[ScalingPolicy], Field("How much may change in which period.", max_items=100)] = []
    tolerance: Annotated[Quantity | None, Field("How far off target counts as on target; by default 0.1.")] = None


class ScalingBehavior(Struct):
    """Rates of scaling, with the meaning of autoscaling/v2."""

    scale_up: Annotated[ScalingRules | None, Field("Upward.")] = None
    scale_down: Annotated[ScalingRules | None, Field("Downward; by default stabilised over 300 s.")] = None


def replicas_path(workload: JsonObject) -> str:
    """Return the path of a Workload's replicas for `kubectl scale`, the number in each city. Raises BadRequest."""
    name, placements = workload["metadata"]["name"], objects(workload["spec"], "placements")
    if len(placements) != 1:
        where = "spec.placements[].scaleSettings.minReplicas"
        raise BadRequest(f"Workload {name} has {len(placements)} placements with a number each: change {where}")
    if mapping(placements[0], "scaleSettings").get("metrics"):
        raise BadRequest(f"Workload {name} is scaled by its metrics: change its minReplicas and maxReplicas")
    return ".spec.placements.0.scaleSettings.minReplicas"


class ScaleSettings(Struct):
    """The number of instances in each city of the placement."""

    min_replicas: Annotated[int, Field("Fewest instances in each city, 1 to 1000.", minimum=1, maximum=1000)]
    max_replicas: Annotated[
        int | None, Field("Most instances in each city. Needs `metrics`.", minimum=1, maximum=1000)
    ] = None
    metrics: Annotated[list[MetricSpec], Field("Metrics to scale by. Needs `maxReplicas`.", max_items=100)] = []
    instance_management_policy: Annotated[
        Literal["OrderedReady", "Parallel"],
        Field("OrderedReady (the default) changes one instance at a time, Parallel all at once."),
    ] = "OrderedReady"
    behavior: Annotated[ScalingBehavior | None, Field("How quickly to scale.")] = None
