"""The node must offer the classes that the pod requests, and have free places in them.

The offered classes are common to the nodes of a pool; free places are per node. Explanations show both as one rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tarmac.api.kubernetes.runtimeclasses import HOST_CLASS
from tarmac.decide import reasons
from tarmac.decide.qosclasses import refusals
from tarmac.decide.qosclasses.counting import Place
from tarmac.decide.scheduling.classdemand import ClassDemand, ClassOffer
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo

_FEW: Final = 5  # limit of classes listed in a message


class ClassOffered:
    """Requested classes must be offered. A node that reports no classes offers none."""

    rule = "classes"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Check the types and classes."""
        wanted = pod.demand.classes
        if wanted is None:
            return None

        def check(info: NodeInfo) -> str | None:
            offer = info.node.offer
            return reasons.CLASS_UNAVAILABLE if wanted.on(offer).torn or wanted.missing(offer) else None

        return check

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Name the class."""
        wanted, offer = _demand_of(pod), info.node.offer
        if torn := wanted.on(offer).torn:
            return Brief(f"different classes of {', '.join(torn)}")
        return Brief(f"no class {_named(wanted.missing(offer))}")

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Name the class and the alternatives."""
        wanted, offer, name = _demand_of(pod), info.node.offer, info.node.name
        if torn := wanted.on(offer).torn:
            kinds = ", ".join(torn)
            message = (
                f"containers ask for different classes of {kinds}, and share one under runtime {pod.demand.handler}"
            )
            return Why(message, f"ask for one class of {kinds} in all containers, or for the RuntimeClass {HOST_CLASS}")
        lacking = wanted.missing(offer)
        message = "; ".join(_not_offered(place, offer, name) for place in lacking[:_FEW])
        others = [instead for place in lacking[:_FEW] if (instead := _instead(place, offer))]
        offering = f"offer {_named(lacking)} on {name}"
        return Why(message, f"{' and '.join(others)}, or {offering}" if len(others) == len(lacking) else offering)


class ClassPlaces:
    """A class with a capacity must have free places."""

    rule = "classes"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Compare the free places."""
        wanted = pod.demand.classes
        if wanted is None:
            return None
        limits: dict[
            ClassOffer, tuple[tuple[Place, int], ...]
        ] = {}  # most places that may be taken before the pod is added

        def check(info: NodeInfo) -> str | None:
            offer = info.node.offer
            most = limits.get(offer)
            if most is None:
                most = limits[offer] = _limits(wanted, offer)
            taken = info.places
            for place, limit in most:
                if taken.get(place, 0) > limit:
                    return reasons.CLASS_EXHAUSTED
            return None

        return check

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Name the class and the missing share of the request."""
        short = info.missing_places(_demand_of(pod))
        return Brief(
            f"class {_named([place for place, *_ in short])} full",
            sum(lack / requested for _, requested, lack in short),
        )

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Name the class and the number of missing places."""
        short, name, offer = info.missing_places(_demand_of(pod)), info.node.name, info.node.offer
        message = "; ".join(
            refusals.full(place, name, requested, info.places.get(place, 0), offer.capacity[place] or 0)
            for place, requested, _ in short[:_FEW]
        )
        freeing = " and ".join(
            f"{lack} place{'s' if lack > 1 else ''} of class {_named([place])}" for place, _, lack in short[:_FEW]
        )
        return Why(message, f"free {freeing} on {name}")


def _named(places: Sequence[Place]) -> str:
    """Return the first few classes for a message."""
    more = f" and {len(places) - _FEW} more" if len(places) > _FEW else ""
    return ", ".join(f"{kind}/{name}" for kind, name in places[:_FEW]) + more


def _demand_of(pod: Pod) -> ClassDemand:
    assert pod.demand.classes is not None, "a pod without classes is not refused for them"
    return pod.demand.classes


def _limits(wanted: ClassDemand, offer: ClassOffer) -> tuple[tuple[Place, int], ...]:
    found = ((place, offer.capacity.get(place), requested) for place, requested in wanted.on(offer).places)
    return tuple((place, most - requested) for place, most, requested in found if most is not None)


def _not_offered(place: Place, offer: ClassOffer, node: str) -> str:
    if place in offer.capacity:
        return refusals.for_whole_pods(place, node)
    return refusals.not_offered(place, node, offer.classes(place[0]))


def _instead(place: Place, offer: ClassOffer) -> str:
    if place in offer.capacity:
        return f"ask for {_named([place])} in spec.resources.classes"
    there = offer.classes(place[0])
    return f"ask for {'one of ' if len(there) > 1 else ''}{', '.join(there)}" if there else ""
