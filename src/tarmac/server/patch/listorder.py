"""The order of a list merged from a client's patch and the live object.

The client decides the order of the items it names. Items only the server knows keep their order among themselves and
stand before the first named item that came after them in the live list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Identify = Callable[[Any], Any]
"""Returns the identity of a list item: the merge key's value, or the scalar itself."""


def arrange(merged: list[Any], wanted: list[Any], live: list[Any], identify: Identify) -> list[Any]:
    """Return `merged` in its final order: `wanted` orders the items it names, `live` places the rest."""
    wanted_place = _places(wanted, identify)
    live_place = _places(live, identify)
    keyed = [(identify(item), item) for item in merged]
    named = [pair for pair in keyed if pair[0] in wanted_place]
    named.sort(key=lambda pair: wanted_place[pair[0]])
    rest = [pair for pair in keyed if pair[0] not in wanted_place]
    if not rest:
        return [item for _, item in named]
    rest.sort(key=lambda pair: live_place.get(pair[0], len(live)))
    return [item for _, item in _weave(rest, named, lambda pair: live_place.get(pair[0]))]


def _places(items: list[Any], identify: Identify) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(identify(item), place)
    return places


def _weave(rest: list[Any], named: list[Any], place: Callable[[Any], int | None]) -> list[Any]:
    result: list[Any] = []
    waiting = iter(rest)
    item = next(waiting, None)
    for other in named:
        other_place = place(other)
        while item is not None and other_place is not None:
            item_place = place(item)
            if item_place is None or item_place >= other_place:
                break
            result.append(item)
            item = next(waiting, None)
        result.append(other)
    if item is not None:
        result.append(item)
    return [*result, *waiting]
