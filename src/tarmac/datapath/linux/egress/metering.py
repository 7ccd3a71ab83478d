"""Traffic through a gateway per ExternalService: sums of nftables counters, and of tracked connections. Pure.

A deleted element loses its count, and replaced tables start from zero. So elements are read before that, and only the
difference to the last reading is added to a sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from tarmac.datapath.egress import GatewayTraffic, ServiceTraffic, SourceAddress, TranslatedConnection
from tarmac.datapath.linux.nftables import Key

Label = tuple[str, str, bool]
"""An ExternalService, a SourceIP, and True if the server began the connections."""

PORTS: Final = 65_536 - 1_024
"""Ports that the kernel chooses from for an address, towards each port of a server."""

_ABSENT: Final = 1_000  # kept sums of services that do not use an address any more, and may again
_NUMBERS: Final = {"TCP": 6, "UDP": 17, "SCTP": 132}


class TrafficMeter:
    """The sums of one gateway."""

    def __init__(self) -> None:
        self._sources: Sequence[SourceAddress] | None = None
        self._labels: dict[str, dict[Key, Label]] | None = None
        self._read: dict[str, dict[Key, int]] = {}
        self._connections, self._bytes = dict[Label, int](), dict[Label, int]()

    def loses(self, sources: Sequence[SourceAddress]) -> bool:
        """Return True if rules for these addresses delete elements.

        The elements of an earlier process are known from now on.
        """
        if self._sources is None:
            self.know(sources)
            return False
        before, now = set(self._sources), set(sources)
        return bool(_ways(before - now) - _ways(now - before))

    def know(self, sources: Sequence[SourceAddress]) -> None:
        """Set the addresses that the rules are for."""
        self._sources, self._labels = sources, None

    def restart(self) -> None:
        """Expect every element to count from zero."""
        self._read.clear()

    def read(self, name: str, counters: Mapping[Key, tuple[int, int]]) -> None:
        """Add the counts, packets and bytes, of a set or map, named with the number of its family."""
        labels = self._known().get(name[:-1], {})
        # Only differences are added: an element read twice must not count twice.
        before, now = self._read.get(name, {}), dict[Key, int]()
        connections = name[:-1] in ("began", "in")
        sums = self._connections if connections else self._bytes
        for key, (packets, size) in counters.items():
            label, number = labels.get(key), packets if connections else size
            if label is not None and number:
                now[key] = number
                known = before.get(key, 0)
                # Less than before: another program has replaced it.
                sums[label] = sums.get(label, 0) + (number - known if number >= known else number)
        self._read[name] = now

    def carriage(self, carried: Collection[str], tally: Iterable[tuple[TranslatedConnection, int]]) -> GatewayTraffic:
        """Return all traffic as of now."""
        known = self._known()
        live, ports = Counter[Label](), Counter[tuple[str, str, str, int]]()
        for one, number in tally:
            if (label := known["sent"].get((one.source[0],))) is not None:
                ports[one.seen[0], one.protocol, *one.meant] += number
            else:
                label = known["called"].get((one.answerer[0],))
            if label is not None and label[1] in carried:
                live[label] += number
        present = {label for labels in known.values() for label in labels.values()}
        self._forget(present)
        use = dict.fromkeys(carried, 0.0)
        for (address, *_), number in ports.items():
            if address in use:
                use[address] = max(use[address], number / PORTS)
        shown = [label for label in sorted(present) if self._shown(label, carried)]
        return GatewayTraffic(tuple(self._traffic(label, live[label]) for label in shown), use)

    def _shown(self, label: Label, carried: Collection[str]) -> bool:
        """Return True if the node serves the address, or has since this process counts."""
        return label[1] in carried or label in self._connections or label in self._bytes

    def _traffic(self, label: Label, live: int) -> ServiceTraffic:
        return ServiceTraffic(*label, live, self._connections.get(label, 0), self._bytes.get(label, 0))

    def _forget(self, present: Collection[Label]) -> None:
        for sums in (self._connections, self._bytes):
            for label in [each for each in sums if each not in present][:-_ABSENT]:
                del sums[label]

    def _known(self) -> dict[str, dict[Key, Label]]:
        if self._labels is None:
            self._labels = _labels(self._sources or ())
        return self._labels


def _ways(sources: Iterable[SourceAddress]) -> set[tuple[str, object]]:
    return {(each.address, way) for each in sources for way in (*each.exits, *each.entrances)}


def _labels(sources: Iterable[SourceAddress]) -> dict[str, dict[Key, Label]]:
    """Return the label of each element, by the set or map it is in."""
    found: dict[str, dict[Key, Label]] = {"began": {}, "in": {}, "sent": {}, "called": {}}
    for each in sources:
        for out in each.exits:
            label = out.service, each.address, False
            found["began"][out.transit,] = found["sent"][out.transit,] = label
        for back in each.entrances:
            label = back.service, each.address, True
            found["in"][back.target, each.address, _NUMBERS[back.protocol], back.port] = label
            found["called"][back.transit,] = label
    return found
