"""The server's explanations of workloads and previews of manifests (`why`, `plan`).

They are computed and never stored. Every field is always present, so that programs need not check.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tarmac.api.compute.names import API_VERSION
from tarmac.api.declare import Field, schema_of
from tarmac.api.resource import Subresource

Answer = Literal["Yes", "Wait", "No", "Unknown"]


class Answered(msgspec.Struct, rename="camel", frozen=True):
    """An explanation or preview, or a part of one."""


class Subject(Answered, frozen=True):
    """The object that is explained."""

    api_version: Annotated[str, Field("Group and version of the object.")]
    kind: Annotated[str, Field("Kind of the object.")]
    namespace: Annotated[str, Field("Its namespace.")]
    name: Annotated[str, Field("Its name.")]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class ExplanationLine(Answered, frozen=True):
    """The result of one rule, with the city and node that it concerns."""

    answer: Annotated[Answer, Field("Yes; No, which requires an action; Wait, which resolves by itself; Unknown.")]
    reason: Annotated[str, Field("A code of the catalogue of reasons.")]
    message: Annotated[str, Field("The reason as a sentence.")]
    rule: Annotated[str, Field("Which rule says so.")] = ""
    city: Annotated[str, Field("The city it is about; empty when it is about all.")] = ""
    node: Annotated[str, Field("The node, or how many nodes, it is about.")] = ""
    change: Annotated[str, Field("The smallest change that would make it a Yes.")] = ""


class Explanation(Answered, frozen=True):
    """An explanation of an object's state."""

    object: Annotated[Subject, Field("What is explained.")]
    sentence: Annotated[str, Field("All of it in one sentence.")]
    verdicts: Annotated[list[ExplanationLine], Field("The verdicts behind it, by city and node.")]
    change: Annotated[str, Field("The smallest change that would help; empty when nothing need or can be done.")] = ""


class ReachPath(Answered, frozen=True):
    """One way from an instance to where it wants to go: of one family, and to one backend of a Service."""

    network: Annotated[str, Field("The Network that it takes, as namespace/name; empty when there is none.")]
    source: Annotated[str, Field("Address that the connection comes from.")]
    target: Annotated[str, Field("Address and port that it comes to.")]
    seen_as: Annotated[str, Field("Address that the other side sees, where it is another.")]
    answer: Annotated[Answer, Field("Yes; No; Wait, for an address or a node; Unknown, on the network of another.")]
    lines: Annotated[list[ExplanationLine], Field("The result of each rule, in order; the first No ends the path.")]


class Reach(Answered, frozen=True):
    """The verdict on one connection, with the deciding rule and the change that would help."""

    from_: Annotated[Subject, Field("The source of the connection.")] = msgspec.field(name="from")
    to: Annotated[Subject, Field("The target of the connection; for a bare address, only the address.")]
    port: Annotated[int, Field("At which port.")]
    protocol: Annotated[str, Field("TCP, UDP or SCTP.")]
    answer: Annotated[
        Literal["Yes", "Wait", "No", "Unknown", "Some"], Field("That of all paths; Some when paths differ.")
    ]
    sentence: Annotated[str, Field("All of it in one sentence.")]
    paths: Annotated[list[ReachPath], Field("Every way there.")]
    change: Annotated[str, Field("The rule to add, and to which policy; empty when nothing need or can be done.")] = ""


class Reachability(Reach, frozen=True):
    """The verdict on a connection from an instance and, on request, on the opposite one."""

    reverse: Annotated[Reach | None, Field("The same from there to here, at the same port, if that was asked.")] = None


class Cause(Answered, frozen=True):
    """A cause of a manifest's rejection."""

    field: Annotated[str, Field("The field it is about.")]
    reason: Annotated[str, Field("A code, as in a Status.")]
    message: Annotated[str, Field("The problem, and the accepted values.")]


class Refused(Answered, frozen=True):
    """A cause that keeps a part of the manifest from running."""

    reason: Annotated[str, Field("A code of the catalogue of reasons.")]
    message: Annotated[str, Field("The reason as a sentence.")]
    change: Annotated[str, Field("The smallest change that would help.")] = ""
    instances: Annotated[int, Field("How many instances it keeps from running.")] = 0


class Ending(Answered, frozen=True):
    """Less important pods that would end on a node to make room."""

    node: Annotated[str, Field("The node.")]
    pods: Annotated[list[str], Field("Names of those in the Workload's namespace.")] = []
    others: Annotated[int, Field("How many of other namespaces would end, too.")] = 0
    violations: Annotated[int, Field("How many of them a disruption budget would keep.")] = 0


class CityPlan(Answered, frozen=True):
    """The effects in one city, in numbers of instances."""

    city: Annotated[str, Field("The city.")]
    create: Annotated[int, Field("Instances that would be made.")] = 0
    replace: Annotated[int, Field("Instances that would be made anew from the new template.")] = 0
    delete: Annotated[int, Field("Instances that would go.")] = 0
    keep: Annotated[int, Field("Instances that would stay as they are.")] = 0
    moved: Annotated[int, Field("Instances that would run here for a lost city; part of create and keep.")] = 0
    refused: Annotated[list[Refused], Field("Instances that could not run here, with the causes.")] = []
    wave: Annotated[int, Field("The wave in which a new template reaches the city; 0 when none does.")] = 0
    endings: Annotated[list[Ending], Field("Pods that would be preempted here, in the order of instances.")] = []
    boot_disks: Annotated[int, Field("Machines to replace with a new boot disk, since their image changes.")] = 0
    stop: Annotated[int, Field("Machines among those to keep that would be stopped.")] = 0
    start: Annotated[int, Field("Machines among those to keep that would be started.")] = 0


class AddressPlan(Answered, frozen=True):
    """The public addresses that an object would have, and who would announce them."""

    pools: Annotated[list[str], Field("AddressPools that the addresses are of.")] = []
    addresses: Annotated[
        list[str], Field("The addresses; `any free IPv4 address` where only values that the server generates decide.")
    ] = []
    gateways: Annotated[list[str], Field("Nodes that could announce them, on a segment in order of preference.")] = []
    endpoints: Annotated[list[str], Field("Cities of the pods behind them, with their number, such as DFW 2.")] = []
    refused: Annotated[list[Refused], Field("Obstacles, with the causes.")] = []


class Plan(Answered, frozen=True):
    """The effects of a manifest."""

    accepted: Annotated[bool, Field("Whether the server would take the manifest.")]
    causes: Annotated[list[Cause], Field("Why not.")] = []
    cities: Annotated[list[CityPlan], Field("The effects, by city.")] = []
    anycast: Annotated[AddressPlan | None, Field("Its anycast addresses, if its annotation asks for them.")] = None

    @property
    def runs(self) -> bool:
        """True if all instances of the manifest would run, with the addresses that it asks for."""
        reached = self.anycast is None or not self.anycast.refused
        return self.accepted and reached and not any(city.refused for city in self.cities)


class ReadySample(Answered, frozen=True):
    """The instances of a Workload at one time."""

    timestamp: Annotated[str, Field("The time of the sample.")]
    ready: Annotated[int, Field("Instances that were ready.")]
    desired: Annotated[int, Field("Instances that were wanted.")]


class WorkloadHistory(Answered, frozen=True):
    """The last minutes of a Workload, as the server has them in memory."""

    samples: Annotated[list[ReadySample], Field("The samples, the oldest first.")]
    since: Annotated[str, Field("The start of the server, before which there are none.")] = ""
    interval: Annotated[str, Field("The time between two samples.")] = ""


HISTORY = Subresource(
    "history", "WorkloadHistory", ("get",), *API_VERSION.split("/"), answer=lambda: schema_of(WorkloadHistory)
)
WHY = Subresource("why", "Explanation", ("get",), *API_VERSION.split("/"), answer=lambda: schema_of(Explanation))
PLAN = Subresource("plan", "Plan", ("create",), *API_VERSION.split("/"), answer=lambda: schema_of(Plan))
LEDGER = Subresource("ledger", "NodeLedger", ("get",), *API_VERSION.split("/"), answer=None)
"""Of a Node: its capacity, reservations, allocations and use."""
