"""Who has which devices. Containers of one pod may have the same one, after each other; pods never share."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import NamedTuple


class Holder(NamedTuple):
    """A container that has devices of one kind."""

    uid: str
    container: str
    resource: str


@dataclass(frozen=True, slots=True)
class Held:
    """The devices, and what the plugin answered when they were given: empty until it has."""

    ids: tuple[str, ...]
    answer: bytes | None = None


class Holdings:
    """What is given out. Nothing here is asked of anybody, so that a choice is made in one step of the loop."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[Holder, Held]] = {}

    def __iter__(self) -> Iterator[tuple[Holder, Held]]:
        for entries in self._pods.values():
            yield from entries.items()

    @property
    def uids(self) -> Set[str]:
        """Pods that have something."""
        return self._pods.keys()

    def of(self, uid: str) -> dict[Holder, Held]:
        """What one pod has."""
        return self._pods.get(uid, {})

    def get(self, holder: Holder) -> Held | None:
        """What one container has of one kind."""
        return self.of(holder.uid).get(holder)

    def put(self, holder: Holder, held: Held) -> None:
        """Give, or give others instead."""
        self._pods.setdefault(holder.uid, {})[holder] = held

    def take(self, holder: Holder) -> None:
        """A container's devices of one kind are free."""
        entries = self.of(holder.uid)
        entries.pop(holder, None)
        if not entries:
            self._pods.pop(holder.uid, None)

    def release(self, uid: str) -> bool:
        """A pod's devices are free; whether it had any."""
        return self._pods.pop(uid, None) is not None

    def in_use(self, resource: str) -> dict[str, str]:
        """The pod that has each device."""
        return {device: holder.uid for holder, held in self if holder.resource == resource for device in held.ids}

    def knows(self, resource: str) -> bool:
        """Whether somebody has such a device."""
        return any(holder.resource == resource for holder, _ in self)
