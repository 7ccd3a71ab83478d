"""Location: a place where instances can run."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tarmac.api.declare import Field, Struct
from tarmac.api.shared import Conditions, Kind, Labels, ObservedGeneration, ResourceList, Summary, counted


class NodesProvider(Struct):
    """Instances run on Tarmac nodes that are labelled with the Location."""


class SimulatedProvider(Struct):
    """Instances are simulated: nothing runs."""


class Provider(Struct):
    """The provider of instances in this place. Exactly one field is set."""

    nodes: Annotated[NodesProvider | None, Field("Tarmac nodes.")] = None
    simulated: Annotated[SimulatedProvider | None, Field("A simulation.")] = None


class Coordinates(Struct):
    """Coordinates on the globe, for maps and distances."""

    latitude: Annotated[str, Field("Degrees north, -90 to 90.", pattern=r"^-?\d{1,2}(\.\d+)?$")]
    longitude: Annotated[str, Field("Degrees east, -180 to 180.", pattern=r"^-?\d{1,3}(\.\d+)?$")]


class LocationSpec(Struct):
    """The spec of a Location."""

    location_class_name: Annotated[Literal["datum-managed", "self-managed"], Field("The operator of the Location.")]
    topology: Annotated[
        Labels,
        Field(
            "Where it is, for placement. topology.datum.net/city-code is required (three capital letters, an IATA "
            "code); topology.datum.net/region is usual."
        ),
    ]
    provider: Annotated[Provider, Field("The provider that runs instances here.")]
    coordinates: Annotated[Coordinates | None, Field("Where on the globe.")] = None
    metrics_url: Annotated[str, Field("Prometheus to ask for external metrics of this place.")] = msgspec.field(
        name="metricsURL", default=""
    )


class LocationStatus(Struct):
    """The place as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    nodes: Annotated[int, Field("Nodes that belong to it.", minimum=0)] = counted()
    ready_nodes: Annotated[int, Field("Nodes that are ready.", minimum=0)] = counted()
    allocatable: Annotated[ResourceList, Field("Resources of the ready nodes together.")] = {}
    summary: Annotated[Summary | None, Field("The place in a few words.")] = None


class Location(Kind):
    """A place where instances can run. Several may share a city."""

    spec: Annotated[LocationSpec, Field("The specification of the Location.")]
    status: Annotated[LocationStatus | None, Field("The place as it is.")] = None


def is_simulated(location: Location | None) -> bool:
    """Return True if its nodes are simulated: instances there run nothing and fetch nothing.

    False for a missing Location.
    """
    return location is not None and location.spec.provider.simulated is not None
