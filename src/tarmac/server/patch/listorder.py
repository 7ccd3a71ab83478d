"""The order of a list merged from a client's patch and the live object.

The client decides the order of what it names; items only the server knows keep their order among themselves and stand
before the first named item that came after them in the live list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Identify = Callable[[Any], Any]
"""What makes two items of a list the same: the merge key's value, or the scalar itself."""


def arrange(merged: list[Any], wanted: list[Any], live: list[Any], identify: Identify) -> list[Any]:
    """`merged` in its final order: `wanted` orders what it names, `live` places the rest."""
    wanted_place = _places(wanted, identify)
    live_place = _places(live, identify)
    named = [item for item in merged if identify(item) in wanted_place]
    named.sort(key=lambda item: wanted_place[identify(item)])
    rest = [item for item in merged if identify(item) not in wanted_place]
    rest.sort(key=lambda item: live_place.get(identify(item), len(live)))
    return _weave(rest, named, lambda item: live_place.get(identify(item)))


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
