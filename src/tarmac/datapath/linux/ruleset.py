"""Tables of one namespace with stable chains and frequently changing elements.

A change of elements is a transaction of its own, so the remaining elements keep their counters and no caller waits
long; only if chains change, or nothing is known, everything is replaced at once. The kernel counts the transactions of
a namespace. One that is not ours means that another program may have changed a table, which is then compared with its
last state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from tarmac.datapath.linux import setelements
from tarmac.datapath.linux.netlink import NETFILTER, Netlink, NetlinkMessage, attributes
from tarmac.datapath.linux.nftables import Key, Nftables, NftablesFault, Table


class ComputedElements(Protocol):
    """Elements that are computed when they are written, so that they take no memory while they are in force."""

    def content(self) -> Mapping[str, str]:
        """Return the value of each key."""
        ...


Elements = Mapping[str, Mapping[str, str] | ComputedElements]
"""By the name of a set or map: the value of each key, empty in sets.

`NAME#PART` is a part of a map: equal parts are not compared element by element. No key is in two parts.
"""

_GET_GENERATION: Final = 10 << 8 | 16
_GENERATION_ID: Final = 1
_HEADER: Final = 4
_MAX_STEPS: Final = 5_000
"""Elements changed in one transaction: the renewal of a lease waits for it."""


@dataclass(frozen=True, slots=True)
class FilledTable:
    """A table: its chains and declarations as text, and the elements of its sets and maps."""

    family: str
    name: str
    chains: str
    elements: Elements

    def replacement(self) -> str:
        """Return the commands that create or replace the table."""
        return Table(self.family, self.name, self.chains).replacement() + "".join(
            self._command("add", _set_name(into), list(_content(part).items()))
            for into, part in self.elements.items()
            if part
        )

    def changes(self, before: FilledTable) -> Iterator[str]:
        """Yield commands, one text per transaction, from `before` with the same chains to this; deletions first."""
        gone, changed, new = list[_Step](), list[_Step](), list[_Step]()
        for part in {**before.elements, **self.elements}:
            name, old, now = _set_name(part), before.elements.get(part, {}), self.elements.get(part, {})
            if old == now:
                continue
            known, wanted = _content(old), _content(now)
            gone += [(name, key, None) for key in known.keys() - wanted.keys()]
            for key, value in wanted.items():
                if key not in known:
                    new.append((name, key, value))
                elif known[key] != value:
                    changed.append((name, key, value))
        moved = {(name, key) for name, key, _ in changed}
        # Deletions first: if a later transaction fails, what was withdrawn is gone already.
        steps = [*gone, *changed, *new]
        for start in range(0, len(steps), _MAX_STEPS):
            yield "".join(self._steps(steps[start : start + _MAX_STEPS], moved))

    def _steps(self, steps: Iterable[_Step], moved: set[tuple[str, str]]) -> Iterator[str]:
        """Yield commands. An element cannot be changed in place: it is deleted and added in the same transaction."""
        added: dict[str, list[tuple[str, str]]] = {}
        removed: dict[str, list[tuple[str, str]]] = {}
        for name, key, value in steps:
            if value is None or (name, key) in moved:
                removed.setdefault(name, []).append((key, ""))
            if value is not None:
                added.setdefault(name, []).append((key, value))
        for word, elements in (("delete", removed), ("add", added)):
            for name, pairs in elements.items():
                yield self._command(word, name, pairs)

    def _command(self, word: str, name: str, pairs: Sequence[tuple[str, str]]) -> str:
        listed = ", ".join(f"{key} : {value}" if value else key for key, value in pairs)
        return f"{word} element {self.family} {self.name} {name} {{ {listed} }}\n"


_Step = tuple[str, str, str | None]


def _set_name(part: str) -> str:
    return part.partition("#")[0]


def _content(part: Mapping[str, str] | ComputedElements) -> Mapping[str, str]:
    return part if isinstance(part, Mapping) else part.content()


class Ruleset:
    """The tables of the namespace that the thread is in at creation. `lock` is held during each transaction."""

    def __init__(self) -> None:
        self.lock: Final = threading.RLock()
        self._nftables = Nftables()
        self._netlink = Netlink(NETFILTER)
        self._tables: dict[tuple[str, str], FilledTable] = {}
        self._generation = -1  # after our last transaction; -1 before the first
        self._baseline: list[bytes] = []

    def ensure(self, wanted: Sequence[FilledTable], restored: Callable[[], str] = str, *, anew: bool = False) -> bool:
        """Make tables match. Return True if all of them were replaced, so that their counters start from zero.

        `restored` returns the commands that restore elements which a replacement would lose.
        """
        with self.lock:
            if not anew and all(self._has_chains(table) for table in wanted):
                try:
                    self._change(wanted)
                except NftablesFault:  # unexpected state in the kernel: rewrite all, which tells the faulty part
                    pass
                else:
                    return False
            self._tables.clear()
            # Nothing is known until this succeeds: after a failure the next call rewrites all.
            self.transaction("".join(table.replacement() for table in wanted) + restored())
            self._generation = self._current()
            self._tables = {(table.family, table.name): table for table in wanted}
            return True

    def refill(self, family: str, table: str, name: str, content: Mapping[str, str]) -> None:
        """Change the elements of one set or map; does nothing before its table exists. Raises NftablesFault."""
        with self.lock:
            known = self._tables.get((family, table))
            if known is None:
                return
            try:
                self._change([replace(known, elements={**known.elements, name: content})])
            except NftablesFault:
                self._tables.clear()  # the kernel's state is not the expected one: the next `ensure` rewrites all
                raise

    def transaction(self, commands: str) -> None:
        """Run commands, without counting them as drift. Raises NftablesFault."""
        with self.lock:
            # Our change makes it outdated: the next check takes a new one.
            self._baseline = []
            self._nftables.run(commands)
            self._generation = _after(self._generation)

    def passing(self, messages: Sequence[NetlinkMessage]) -> None:
        """Change elements that time out, which are excluded from the comparison. Raises OSError."""
        with self.lock:
            self._netlink.transact(*setelements.transaction(messages))
            self._generation = _after(self._generation)

    def drifted(self) -> bool:
        """Return True if another program has changed one of the tables since the last call."""
        with self.lock:
            current = self._current()
            meddled = current != self._generation
            shown = self._shown() if meddled or not self._baseline else self._baseline
            if meddled and shown != self._baseline:
                return True
            self._generation, self._baseline = current, shown
            return False

    def listing(self, name: str) -> str:
        """Return a set's listing in nft's syntax: `FAMILY TABLE SET`. Empty if there is none."""
        with self.lock:
            return self._nftables.text(f"list set {name}")

    def counters(self, name: str) -> dict[Key, tuple[int, int]]:
        """Return packets and bytes of each element: `set FAMILY TABLE SET`, or `map`. Raises NftablesFault."""
        with self.lock:
            return self._nftables.counters(name)

    def elements(self, family: str, table: str, name: str) -> list[tuple[str, str]]:
        """Return keys and values of a map from the kernel, numbers in decimal."""
        parts = [each["map"] for each in self._nftables.listing(family, table) if "map" in each]
        return [(str(key), str(value)) for part in parts if part["name"] == name for key, value in part.get("elem", ())]

    def remove(self, tables: Iterable[tuple[str, str]]) -> None:
        """Delete tables."""
        with self.lock:
            for family, name in tables:
                self._nftables.remove(family, name)
            self._tables.clear()

    def close(self) -> None:
        """Close sockets; the rules stay."""
        self._netlink.close()
        self._nftables.close()

    def _has_chains(self, table: FilledTable) -> bool:
        known = self._tables.get((table.family, table.name))
        return known is not None and known.chains == table.chains

    def _change(self, wanted: Sequence[FilledTable]) -> None:
        for table in wanted:
            known = self._tables[table.family, table.name]
            if known.elements == table.elements:
                continue
            for commands in table.changes(known):
                self.transaction(commands)
            self._tables[table.family, table.name] = table

    def _shown(self) -> list[bytes]:
        return [self._nftables.fingerprint(family, name) for family, name in self._tables]

    def _current(self) -> int:
        body = self._netlink.get(_GET_GENERATION, bytes(_HEADER))
        assert body is not None, "every namespace has a generation"
        return int.from_bytes(attributes(body, _HEADER)[_GENERATION_ID])


def _after(generation: int) -> int:
    return (generation + 1) % (1 << 32) or 1
