"""Workload and WorkloadDeployment: instances in many cities as one object, and its part in one city."""

from __future__ import annotations

from typing import Annotated, Literal

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.scaling import ScaleSettings
from tarmac.api.declare import Field, IntOrString, Struct, Time
from tarmac.api.shared import (
    Conditions,
    Kind,
    LabelSelector,
    LocalObjectReference,
    LocationReference,
    ObservedGeneration,
    Summary,
    counted,
)


class PlacementSelector(Struct):
    """Places chosen by an expression."""

    constraint: Annotated[
        str,
        Field(
            "A CEL expression over region, cityCode and topology (a map of all topology keys), such as "
            "region in ['US', 'EU']. A key that a Location lacks is the empty string.",
            max_length=4096,
        ),
    ]


class OnCityLoss(Struct):
    """Policy for the instances of a lost city."""

    policy: Annotated[
        Literal["Stay", "Move"], Field("Stay (the default) waits for the city, Move starts instances in other cities.")
    ] = "Stay"
    cities: Annotated[list[str], Field("Where to move to, in order of preference.", unique=True, max_items=1000)] = []
    after: Annotated[str, Field("How long a city must be lost first, such as 5m.")] = ""


class Placement(Struct, kw_only=True):
    """Cities and the number of instances in each. Exactly one way of choosing places is used."""

    name: Annotated[str, Field("A DNS label, unique in the workload.")]
    city_codes: Annotated[
        list[str], Field("IATA codes of cities. Each gets a deployment of its own.", unique=True, max_items=1000)
    ] = []
    scope: Annotated[str, Field("The unit of a deployment; only cityCode.")] = ""
    selector: Annotated[PlacementSelector | None, Field("Places chosen by an expression.")] = None
    locations: Annotated[list[LocalObjectReference], Field("Locations by name.", key="name", max_items=1000)] = []
    location_selector: Annotated[LabelSelector | None, Field("Locations by their topology keys.")] = None
    scale_settings: Annotated[ScaleSettings, Field("How many instances in each city.")]
    on_city_loss: Annotated[OnCityLoss | None, Field("Reaction to the loss of a city; by default Stay.")] = None


class Rollout(Struct):
    """The replacement of instances after a template change: in one city, and from city to city."""

    max_unavailable: Annotated[
        IntOrString, Field("Most instances that may be missing meanwhile: a number or a percentage; by default 1.")
    ] = 1
    max_surge: Annotated[
        IntOrString,
        Field("Most extra instances meanwhile, at ordinals above the highest: a number or a percentage; by default 0."),
    ] = 0
    waves: Annotated[
        Literal["Doubling", "AllAtOnce"],
        Field(
            "Doubling (the default) updates 1 city, then 2, then 4, and so on; AllAtOnce updates every city at once."
        ),
    ] = "Doubling"
    min_ready_seconds: Annotated[
        int,
        Field(
            "How long the cities of a wave must stay ready, without a restart, before the next wave; by default 10.",
            minimum=0,
        ),
    ] = 10
    progress_deadline_seconds: Annotated[
        int,
        Field("A city that makes no progress for so long has failed; by default 600.", minimum=1),
    ] = 600
    on_failure: Annotated[
        Literal["Restore", "Hold"],
        Field("Restore (the default) takes cities back to the last complete revision, Hold leaves them as they are."),
    ] = "Restore"


class WorkloadSpec(Struct):
    """The spec of a Workload."""

    template: Annotated[InstanceTemplate, Field("The specification of each instance.")]
    placements: Annotated[
        list[Placement], Field("The places, each with its number of instances.", key="name", min_items=1, max_items=100)
    ]
    rollout: Annotated[Rollout | None, Field("How a template change replaces instances.")] = None
    paused: Annotated[bool, Field("No rollout and no scaling while true.")] = False


class Counters(Struct):
    """Instances counted. All of them are always there."""

    replicas: Annotated[int, Field("Instances that exist.", minimum=0)] = counted()
    current_replicas: Annotated[int, Field("Instances of the newest template that are programmed.", minimum=0)] = (
        counted()
    )
    desired_replicas: Annotated[int, Field("Instances wanted now.", minimum=0)] = counted()
    ready_replicas: Annotated[int, Field("Instances that are ready, with any template.", minimum=0)] = counted()
    updated_replicas: Annotated[int, Field("Instances of the newest template.", minimum=0)] = counted()
    stopped_replicas: Annotated[int, Field("Virtual machines that are stopped.", minimum=0)] = 0


class PlacementStatus(Counters, kw_only=True):
    """A placement as it is."""

    name: Annotated[str, Field("Name of the placement.")]
    conditions: Conditions = []
    locations: Annotated[list[str], Field("Locations that were chosen.")] = []


class RevisionRecord(Struct):
    """A template that was rolled out, kept so that one can go back to it."""

    number: Annotated[int, Field("Counts up; going back makes a new revision.", minimum=1)]
    template_hash: Annotated[str, Field("Name of the template's content, as Instances carry it.")]
    created: Annotated[Time, Field("When it was first rolled out.")]
    template: Annotated[
        str,
        Field(
            "Name of the ControllerRevision that keeps the template. Earlier versions wrote the template itself here: "
            "JSON, compressed (zlib) and encoded (base64)."
        ),
    ]
    completed: Annotated[Time | None, Field("When all instances were of it and ready for the first time.")] = None


class StartFailure(Struct):
    """An instance of the newest template that says that it cannot start."""

    instance: Annotated[str, Field("Name of the Instance.")]
    reason: Annotated[str, Field("Why, as a code of the catalogue of reasons.")]
    message: Annotated[str, Field("Why, as a sentence.")]
    since: Annotated[Time, Field("Since when it has said so.")]


class RolloutFailure(Struct, kw_only=True):
    """The city that stopped a rollout, and the cause."""

    city: Annotated[str, Field("The city that failed.")]
    deployment: Annotated[str, Field("Its WorkloadDeployment.")]
    instance: Annotated[str, Field("The Instance that cannot start; empty when the city made no progress.")] = ""
    reason: Annotated[str, Field("Why, as a code of the catalogue of reasons.")]
    message: Annotated[str, Field("Why, as a sentence.")]
    time: Annotated[Time, Field("When the rollout was stopped.")]


class RolloutStatus(Struct, kw_only=True):
    """Progress of the newest revision, from city to city."""

    revision: Annotated[int, Field("Number of the newest revision.", minimum=1)]
    wave: Annotated[int, Field("The wave that is under way, or the last one.", minimum=0)]
    waves: Annotated[int, Field("Waves in all.", minimum=0)]
    updated_cities: Annotated[int, Field("Cities that have the newest revision.", minimum=0)] = counted()
    cities: Annotated[int, Field("Cities in all; one that several placements name counts for each.", minimum=0)] = (
        counted()
    )
    failure: Annotated[RolloutFailure | None, Field("Where and why it was stopped, if it was.")] = None


class AnycastCity(Struct):
    """The part of one city in the shared addresses of a Workload."""

    city: Annotated[str, Field("The city code.")]
    announced: Annotated[bool, Field("Whether a node of the city announces the addresses.")] = False
    instances: Annotated[int, Field("Ready instances there.", minimum=0)] = counted()
    since: Annotated[Time | None, Field("When `announced` last changed.")] = None
    reason: Annotated[str, Field("Why it announces them, or does not.")] = ""


class WorkloadStatus(Counters):
    """The workload as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    deployments: Annotated[int, Field("WorkloadDeployments, those being deleted included.", minimum=0)] = 0
    placements: Annotated[list[PlacementStatus], Field("Each placement as it is.", key="name")] = []
    revision: Annotated[str, Field("Revision of the newest template.")] = ""
    revisions: Annotated[
        list[RevisionRecord], Field("The last templates, the newest last.", key="number", max_items=20)
    ] = []
    rollout: Annotated[RolloutStatus | None, Field("How far the newest revision has come.")] = None
    anycast_addresses: Annotated[
        list[str], Field("Shared addresses announced from every city that is ready; none while nothing announces them.")
    ] = []
    anycast: Annotated[list[AnycastCity], Field("The shared addresses by city.", key="city", max_items=1000)] = []
    summary: Annotated[Summary | None, Field("The workload in a few words.")] = None


class Workload(Kind):
    """Instances of one template in as many cities as it names, kept that way for as long as the object exists."""

    spec: Annotated[WorkloadSpec, Field("The desired state of the Workload.")]
    status: Annotated[WorkloadStatus | None, Field("The workload as it is; written by the platform.")] = None


class WorkloadReference(Struct):
    """The Workload a deployment belongs to."""

    name: Annotated[str, Field("Name of the Workload.")]
    uid: Annotated[str, Field("UID of the Workload.")]


class WorkloadDeploymentSpec(Struct):
    """The part of a Workload that is in one city."""

    workload_ref: Annotated[WorkloadReference, Field("The Workload it belongs to. Cannot be changed.")]
    placement_name: Annotated[str, Field("The placement it was made for. Cannot be changed.")]
    city_code: Annotated[str, Field("The city it is in. Cannot be changed.")]
    template: Annotated[InstanceTemplate, Field("The specification of each instance; copied from the Workload.")]
    scale_settings: Annotated[ScaleSettings, Field("How many instances; copied from the placement.")]
    replicas: Annotated[
        int | None,
        Field("Instances wanted, set by scaling; kept between minReplicas and maxReplicas.", minimum=0, maximum=1000),
    ] = None
    rollout: Annotated[Rollout | None, Field("How a template change replaces instances.")] = None
    paused: Annotated[bool, Field("No rollout and no scaling while true.")] = False


class ScalingMetric(Struct):
    """A metric as it was last told."""

    name: Annotated[str, Field("Its name.")]
    value: Annotated[str, Field("Its current value, in the form of its target; empty when it could not be read.")] = ""
    target: Annotated[str, Field("The target value.")] = ""
    replicas: Annotated[int | None, Field("How many instances it asks for.", minimum=0)] = None


class Scaling(Struct):
    """Metrics, reported after a considerable change, at most once a minute."""

    metrics: Annotated[list[ScalingMetric], Field("Each metric of the scale settings, in their order.")] = []
    wanted: Annotated[int, Field("How many instances they come to.", minimum=0)] = 0
    time: Annotated[Time | None, Field("When it was told.")] = None


class WorkloadDeploymentStatus(Counters):
    """The deployment as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    location: Annotated[LocationReference | None, Field("Location it was given by the scheduler.")] = None
    revision: Annotated[str, Field("Revision of the newest template.")] = ""
    selector: Annotated[str, Field("Selects the deployment's instances; for scaling.")] = ""
    last_progress_time: Annotated[
        Time | None, Field("When a new template, or one more instance of it, was last seen.")
    ] = None
    start_failure: Annotated[
        StartFailure | None, Field("An instance of the newest template that cannot start, if there is one.")
    ] = None
    restarts: Annotated[int, Field("Restarts of instances of the newest template.", minimum=0)] = 0
    scaling: Annotated[Scaling | None, Field("The values of its metrics; empty without metrics.")] = None
    summary: Annotated[Summary | None, Field("The deployment in a few words.")] = None


class WorkloadDeployment(Kind):
    """The part of a Workload that is in one city. Made by the Workload's controller."""

    spec: Annotated[WorkloadDeploymentSpec, Field("The desired state in the city.")]
    status: Annotated[WorkloadDeploymentStatus | None, Field("The deployment as it is.")] = None
