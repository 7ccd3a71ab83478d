"""Incremental sums over deployments.

A report of one deployment changes the sums by its difference to the previous report, so it costs the same among ten
deployments and among a thousand. All other facts of a status are read from groups: a deployment that is not being
deleted is in the groups given by its conditions, and most reports leave its groups unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Final

from tarmac.api.compute.workload import Counters
from tarmac.decide import reasons
from tarmac.decide.rollup.view import DeploymentView

_COUNTED: Final = Counters.__struct_fields__


class DeploymentGroup(Enum):
    """Groups of deployments that are not being deleted, by their conditions."""

    AVAILABLE = auto()
    UNAVAILABLE = auto()
    REFUSED = auto()  # Progressing is False: a person has to act
    ROLLING = auto()
    SCALING = auto()
    PAUSED = auto()
    UNREPORTED = auto()  # the Progressing condition is not set yet
    OUTDATED = auto()
    TROUBLED = auto()


class _Members:
    """The deployments of one group with the same reason, in the order of their names."""

    __slots__ = ("_names", "_views")

    def __init__(self) -> None:
        self._views: dict[str, DeploymentView] = {}
        self._names: list[str] | None = None  # sorted; None after a member was added or removed

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[tuple[str, DeploymentView]]:
        if self._names is None:
            self._names = sorted(self._views)
        return ((name, self._views[name]) for name in self._names)

    def put(self, name: str, view: DeploymentView) -> None:
        if name not in self._views:
            self._names = None
        self._views[name] = view

    def drop(self, name: str) -> None:
        del self._views[name]
        self._names = None


class _Counts:
    """The number of deployments per text."""

    __slots__ = ("_counts", "_sorted")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._sorted: list[str] | None = None

    def add(self, text: str, difference: int) -> None:
        count = self._counts.get(text, 0) + difference
        if count:
            if text not in self._counts:
                self._sorted = None
            self._counts[text] = count
        else:
            del self._counts[text]
            self._sorted = None

    def texts(self) -> list[str]:
        """Return the texts with at least one deployment, sorted."""
        if self._sorted is None:
            self._sorted = sorted(self._counts)
        return list(self._sorted)

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)


class DeploymentTally:
    """The deployments of a placement, by name. All sequences it returns are in the order of names."""

    def __init__(self, deployments: Iterable[tuple[str, DeploymentView]] = ()) -> None:
        self.counters = Counters()
        self.staying = 0  # deployments that are not being deleted
        self._views: dict[str, DeploymentView] = {}
        self._groups: dict[DeploymentGroup, dict[str, _Members]] = {
            group: {} for group in DeploymentGroup
        }  # then by reason
        self._locations, self._cities, self._ready_cities = _Counts(), _Counts(), _Counts()
        for name, view in deployments:
            self.put(name, view)

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[DeploymentView]:
        return (self._views[name] for name in sorted(self._views))

    def put(self, name: str, view: DeploymentView) -> None:
        """Add or update a deployment."""
        known = self._views.get(name)
        self._views[name] = view
        # Add the new view before removing the old one: no count falls to 0 in between, so sorted caches stay valid.
        self._add(view, 1)
        places = _places(view)
        for group, reason in places:
            self._groups[group].setdefault(reason, _Members()).put(name, view)
        if known is not None:
            self._add(known, -1)
            self._leave(name, (place for place in _places(known) if place not in places))

    def drop(self, name: str) -> None:
        """Remove a deployment."""
        known = self._views.pop(name)
        self._add(known, -1)
        self._leave(name, _places(known))

    def members(self, group: DeploymentGroup, reason: str = "") -> Iterator[DeploymentView]:
        """Return the deployments of a group with the given reason."""
        return (view for _, view in self._groups[group].get(reason, ()))

    def first_of_each(self, group: DeploymentGroup) -> list[DeploymentView]:
        """Return the first deployment of each reason in a group."""
        return [view for _, view in sorted((next(iter(of)) for of in self._groups[group].values()), key=_name)]

    def any(self, group: DeploymentGroup) -> bool:
        """Return True if a group has a deployment."""
        return bool(self._groups[group])

    @property
    def locations(self) -> list[str]:
        """The Locations of deployments that are not being deleted, sorted."""
        return self._locations.texts()

    @property
    def cities(self) -> Iterable[str]:
        """The cities of deployments that are not being deleted."""
        return self._cities

    @property
    def ready_cities(self) -> Iterable[str]:
        """The cities among them with a ready instance."""
        return self._ready_cities

    def _add(self, view: DeploymentView, sign: int) -> None:
        for name in _COUNTED:
            setattr(self.counters, name, getattr(self.counters, name) + sign * getattr(view.counters, name))
        if view.deleting:
            return
        self.staying += sign
        self._cities.add(view.city, sign)
        if view.location:
            self._locations.add(view.location, sign)
        if view.counters.ready_replicas:
            self._ready_cities.add(view.city, sign)

    def _leave(self, name: str, places: Iterable[tuple[DeploymentGroup, str]]) -> None:
        for group, reason in places:
            members = self._groups[group][reason]
            members.drop(name)
            if not members:
                del self._groups[group][reason]


def _name(member: tuple[str, DeploymentView]) -> str:
    return member[0]


def _places(view: DeploymentView) -> list[tuple[DeploymentGroup, str]]:
    """Return the groups of a deployment, each with the reason it has there."""
    if view.deleting:
        return []
    found = [_progress(view)]
    if view.available is not None:
        serves = view.available.status == "True"
        found.append(
            (DeploymentGroup.AVAILABLE, "") if serves else (DeploymentGroup.UNAVAILABLE, view.available.reason)
        )
    if view.outdated:
        found.append((DeploymentGroup.OUTDATED, ""))
    if view.trouble:
        found.append((DeploymentGroup.TROUBLED, view.trouble))
    return [place for place in found if place is not None]


def _progress(view: DeploymentView) -> tuple[DeploymentGroup, str] | None:
    """Return the group and reason of the Progressing condition; None for a deployment that is complete."""
    condition = view.progressing
    if condition is None:
        return DeploymentGroup.UNREPORTED, ""
    if condition.status == "False":
        return DeploymentGroup.REFUSED, condition.reason
    if condition.reason == reasons.NEW_REVISION:
        return DeploymentGroup.ROLLING, ""
    if condition.reason == reasons.SCALING:
        return DeploymentGroup.SCALING, ""
    return (DeploymentGroup.PAUSED, "") if condition.status == "Unknown" else None
