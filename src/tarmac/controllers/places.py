"""Locations as the decision layer sees them, decoded once per version and indexed by city.

A Location changes rarely and is read for every deployment: decoding all of them each time would make the cost of one
deployment grow with the number of cities.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tarmac.api.networking.location import Location
from tarmac.client.cache import Item
from tarmac.client.informer import Informer
from tarmac.decide.placement import LocationView, place_of, ready_since

Handler = Callable[[LocationView | None, LocationView | None], None]


class Places:
    """Places, kept up to date by an informer. Without `leaving`, a Location that is being deleted counts as deleted."""

    def __init__(self, locations: Informer[Location], *, leaving: bool = True) -> None:
        self._leaving = leaving
        self._handlers: list[Handler] = []
        self._by_name: dict[str, LocationView] = {}
        self._by_city: dict[str, list[LocationView]] = {}
        locations.on_change(self._changed)

    @property
    def all(self) -> Collection[LocationView]:
        """All places. A live view: do not hold it over an await."""
        return self._by_name.values()

    @property
    def by_city(self) -> Mapping[str, Collection[LocationView]]:
        """The places of each city. A live view: do not hold it over an await."""
        return self._by_city

    def on_change(self, handler: Handler) -> None:
        """Call the handler with the place before and after each change relevant to decisions.

        Node counts are not relevant.
        """
        self._handlers.append(handler)

    def _changed(self, old: Item[Location] | None, new: Item[Location] | None) -> None:
        item = new or old
        assert item is not None, "a change has a state before or after it"
        gone = new is None or (new.metadata.deletion_timestamp is not None and not self._leaving)
        made = None if gone else place_of(item.object, ready_since(item.object))
        known = self._by_name.get(item.metadata.name)
        if made == known:
            return
        if known is not None:
            self._drop(known)
        if made is not None:
            self._by_name[made.name] = made
            self._by_city.setdefault(made.city, []).append(made)
        # After both indexes are updated: handlers read them.
        for handler in self._handlers:
            handler(known, made)

    def _drop(self, place: LocationView) -> None:
        del self._by_name[place.name]
        of_city = self._by_city[place.city]
        of_city.remove(place)
        if not of_city:
            del self._by_city[place.city]
