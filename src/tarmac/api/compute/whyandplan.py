"""What the server answers to questions about workloads: why something is as it is, and what a manifest would do.

These are answered and never stored. Every field is always there, so that programs need not ask whether it is.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tarmac.api.declare import Field

Answer = Literal["Yes", "Wait", "No"]


class _Answered(msgspec.Struct, rename="camel", frozen=True):
    pass


class Subject(_Answered, frozen=True):
    """The object that is explained."""

    api_version: Annotated[str, Field("Group and version of the object.")]
    kind: Annotated[str, Field("Kind of the object.")]
    namespace: Annotated[str, Field("Its namespace.")]
    name: Annotated[str, Field("Its name.")]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Line(_Answered, frozen=True):
    """What one rule says, and about which city and node."""

    answer: Annotated[Answer, Field("Yes; No, which needs somebody to act; Wait, which goes on by itself.")]
    reason: Annotated[str, Field("A code of the catalogue of reasons.")]
    message: Annotated[str, Field("The reason as a sentence.")]
    rule: Annotated[str, Field("Which rule says so.")] = ""
    city: Annotated[str, Field("The city it is about; empty when it is about all.")] = ""
    node: Annotated[str, Field("The node, or how many nodes, it is about.")] = ""
    change: Annotated[str, Field("The smallest change that would make it a Yes.")] = ""


class Explanation(_Answered, frozen=True):
    """Why an object is as it is."""

    object: Annotated[Subject, Field("What is explained.")]
    sentence: Annotated[str, Field("All of it in one sentence.")]
    verdicts: Annotated[list[Line], Field("What it follows from, by city and node.")]
    change: Annotated[str, Field("The smallest change that would help; empty when nothing need or can be done.")] = ""


class Cause(_Answered, frozen=True):
    """Why a manifest is refused."""

    field: Annotated[str, Field("The field it is about.")]
    reason: Annotated[str, Field("A code, as in a Status.")]
    message: Annotated[str, Field("What is wrong, and what would be accepted.")]


class Refused(_Answered, frozen=True):
    """Why something that the manifest asks for cannot run."""

    reason: Annotated[str, Field("A code of the catalogue of reasons.")]
    message: Annotated[str, Field("The reason as a sentence.")]
    change: Annotated[str, Field("The smallest change that would help.")] = ""
    instances: Annotated[int, Field("How many instances it keeps from running.")] = 0


class Ending(_Answered, frozen=True):
    """Less important pods that would end on a node to make room."""

    node: Annotated[str, Field("The node.")]
    pods: Annotated[list[str], Field("Names of those in the Workload's namespace.")] = []
    others: Annotated[int, Field("How many of other namespaces would end, too.")] = 0
    violations: Annotated[int, Field("How many of them a disruption budget would keep.")] = 0


class CityPlan(_Answered, frozen=True):
    """What would happen in one city, in numbers of instances."""

    city: Annotated[str, Field("The city.")]
    create: Annotated[int, Field("Instances that would be made.")] = 0
    replace: Annotated[int, Field("Instances that would be made anew from the new template.")] = 0
    delete: Annotated[int, Field("Instances that would go.")] = 0
    keep: Annotated[int, Field("Instances that would stay as they are.")] = 0
    moved: Annotated[int, Field("Instances that would run here for a lost city; part of create and keep.")] = 0
    refused: Annotated[list[Refused], Field("What could not run here, and why.")] = []
    wave: Annotated[int, Field("The wave in which a new template reaches the city; 0 when none does.")] = 0
    endings: Annotated[list[Ending], Field("Who would end to make room here, in the order of instances.")] = []


class Plan(_Answered, frozen=True):
    """What a manifest would do."""

    accepted: Annotated[bool, Field("Whether the server would take the manifest.")]
    causes: Annotated[list[Cause], Field("Why not.")] = []
    cities: Annotated[list[CityPlan], Field("What would happen, by city.")] = []

    @property
    def runs(self) -> bool:
        """Whether everything the manifest asks for would run."""
        return self.accepted and not any(city.refused for city in self.cities)
