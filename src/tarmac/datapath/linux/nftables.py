"""nftables through its own library, in this process: a transaction takes a fraction of the time of a command.

A table is described as text and replaced as a whole in one transaction, so packets meet either the old rules or the new
ones, never a mix. The kernel's listing is remembered; if it differs later, another program has changed the table, and
it is written again. Elements that packets themselves add to sets are excluded from that.

The library caches the ruleset it has last read, which any transaction invalidates, and the text it has last written:
megabytes for thousands of elements. Both are freed after each piece of work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import msgspec

from tarmac.base.heap import trim_heap

_OUTPUT_JSON: Final = 1 << 4
_OUTPUT_NUMERIC: Final = 0b1111 << 7
_OUTPUT_STATELESS: Final = 1 << 2
_MUCH: Final = 1 << 17  # characters of commands and listings; the library's memory for them is ten times as large

Key = tuple[str | int, ...]
"""Key of an element, part by part."""


class NftablesFault(Exception):
    """nftables rejected a command. The message is its own."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it should be, in nft's syntax. `restored` adds elements that packets created and that must stay."""

    family: str
    name: str
    body: str
    restored: str = ""

    def replacement(self) -> str:
        """Return the commands that create or replace the table."""
        # `add` precedes `delete`: deleting an absent table would fail the whole transaction.
        header = f"table {self.family} {self.name}"
        return f"add {header}\ndelete {header}\n{header} {{\n{self.body}}}\n{self.restored}"


class Nftables:
    """The tables of the network namespace that the thread is in at creation."""

    def __init__(self) -> None:
        self._library = _library()
        self._context = self._library.nft_ctx_new(0)
        self._library.nft_ctx_buffer_output(self._context)
        self._library.nft_ctx_buffer_error(self._context)
        self._written: dict[tuple[str, str], tuple[str, bytes]] = {}
        self._characters = 0  # characters, in and out, since memory was freed

    def ensure(self, tables: Iterable[Table], *, verify: bool = True, also: str = "") -> None:
        """Make tables match, in one transaction with the commands in `also`.

        With `verify`, unchanged tables are compared with the kernel, too.
        """
        with self._freeing_caches():
            wrong = [table for table in tables if not self._is_right(table, verify)]
            if wrong or also:
                self._run("".join(table.replacement() for table in wrong) + also)
            for table in wrong:
                # After the transaction: a rejected table must not count as written.
                self._written[table.family, table.name] = table.body, self._fingerprint(table.family, table.name)

    def remove(self, family: str, name: str) -> None:
        """Delete a table, if it exists."""
        # Before the deletion: if it fails, the table's state is unknown.
        self._written.pop((family, name), None)
        self.run(f"add table {family} {name}\ndelete table {family} {name}\n")

    def listing(self, family: str, name: str, stateless: bool = True) -> list[dict[str, Any]]:
        """Return the kernel's table as nft describes it; empty if there is no such table."""
        with self._freeing_caches():
            shown = self._shown(family, name, stateless)
        return [each for each in msgspec.json.decode(shown)["nftables"] if "metainfo" not in each] if shown else []

    def counters(self, name: str) -> dict[Key, tuple[int, int]]:
        """Return packets and bytes of each element of a counting set or map. Raises NftablesFault."""
        self._library.nft_ctx_output_set_flags(self._context, _OUTPUT_JSON | _OUTPUT_NUMERIC)
        parts = _decode_counting(self.run(f"list {name}")).nftables
        return dict(_counted(element) for part in parts if (of := part.set or part.map) for element in of.elem)

    def text(self, command: str) -> str:
        """Return a listing in nft's syntax; empty if the object does not exist."""
        self._library.nft_ctx_output_set_flags(self._context, 0)
        try:
            return self.run(command).decode()
        except NftablesFault:
            return ""

    def run(self, commands: str) -> bytes:
        """Run commands, all or none, and return their output. Raises NftablesFault."""
        with self._freeing_caches():
            return self._run(commands)

    def fingerprint(self, family: str, name: str) -> bytes:
        """Return a digest of the persistent content of a table, to compare two moments."""
        with self._freeing_caches():
            return self._fingerprint(family, name)

    def close(self) -> None:
        """Free the library's context."""
        self._library.nft_ctx_free(self._context)

    def _run(self, commands: str) -> bytes:
        failed = self._library.nft_run_cmd_from_buffer(self._context, commands.encode())
        output: bytes = self._library.nft_ctx_get_output_buffer(self._context)
        if failed:
            raise NftablesFault(self._library.nft_ctx_get_error_buffer(self._context).decode(errors="replace").strip())
        self._characters += len(commands) + len(output)
        return output

    @contextmanager
    def _freeing_caches(self) -> Generator[None]:
        """Drop the library's caches at the end. A dry run of an empty command clears its ruleset cache."""
        try:
            yield
        finally:
            self._library.nft_ctx_set_dry_run(self._context, True)
            self._library.nft_run_cmd_from_buffer(self._context, b"")
            self._library.nft_ctx_set_dry_run(self._context, False)
            self._library.nft_ctx_unbuffer_output(self._context)
            self._library.nft_ctx_buffer_output(self._context)
            if self._characters > _MUCH:
                trim_heap()
            self._characters = 0

    def _fingerprint(self, family: str, name: str) -> bytes:
        shown = self._shown(family, name)
        found = sha256()
        for each in _decode_parts(shown).nftables if shown else ():
            for kind, content in each.items():
                found.update(b"\0".join((kind.encode(), *_stable_content(content))))
        return found.digest()

    def _is_right(self, table: Table, verify: bool) -> bool:
        key = table.family, table.name
        body, fingerprint = self._written.get(key, ("", b""))
        return body == table.body and (not verify or self._fingerprint(*key) == fingerprint)

    def _shown(self, family: str, name: str, stateless: bool = True) -> bytes:
        flags = _OUTPUT_JSON | _OUTPUT_NUMERIC | (_OUTPUT_STATELESS if stateless else 0)
        self._library.nft_ctx_output_set_flags(self._context, flags)
        try:
            return self._run(f"list table {family} {name}")
        except NftablesFault:
            return b""


class _Parts(msgspec.Struct):
    """nft's JSON, decoded only as far as needed: tables may have very many elements."""

    nftables: list[dict[str, dict[str, msgspec.Raw]]]


class _Concatenated(msgspec.Struct):
    concat: tuple[str | int, ...]


class _Counts(msgspec.Struct):
    packets: int
    bytes: int


class _Counting(msgspec.Struct):
    val: str | int | _Concatenated
    counter: _Counts


class _Element(msgspec.Struct):
    elem: _Counting


class _Counters(msgspec.Struct):
    elem: list[_Element | tuple[_Element, int]] = []


class _CountingPart(msgspec.Struct):
    set: _Counters | None = None
    map: _Counters | None = None


class _CountingParts(msgspec.Struct):
    nftables: list[_CountingPart]


def _counted(element: _Element | tuple[_Element, int]) -> tuple[Key, tuple[int, int]]:
    found = (element[0] if isinstance(element, tuple) else element).elem
    key = found.val.concat if isinstance(found.val, _Concatenated) else (found.val,)
    return key, (found.counter.packets, found.counter.bytes)


_decode_counting = msgspec.json.Decoder(_CountingParts).decode
_decode_parts = msgspec.json.Decoder(_Parts).decode
_decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _stable_content(content: dict[str, msgspec.Raw]) -> Iterator[bytes]:
    """Yield the stable content of a listing: no handles, elements sorted, none that packets added."""
    for key, value in content.items():
        if key == "elem":
            dynamic = b"dynamic" in bytes(content.get("flags", b""))
            yield from () if dynamic else sorted(map(bytes, _decode_elements(value)))
        elif key not in ("handle", "version", "release_name"):
            yield b"%b %b" % (key.encode(), bytes(value))


_loaded: list[ctypes.CDLL] = []


def _library() -> ctypes.CDLL:
    if not _loaded:
        library = ctypes.CDLL("libnftables.so.1")
        context, text = ctypes.c_void_p, ctypes.c_char_p
        for name, result, arguments in (
            ("nft_ctx_new", context, (ctypes.c_uint32,)),
            ("nft_ctx_free", None, (context,)),
            ("nft_ctx_buffer_output", ctypes.c_int, (context,)),
            ("nft_ctx_unbuffer_output", ctypes.c_int, (context,)),
            ("nft_ctx_buffer_error", ctypes.c_int, (context,)),
            ("nft_ctx_set_dry_run", None, (context, ctypes.c_bool)),
            ("nft_ctx_output_set_flags", None, (context, ctypes.c_uint)),
            ("nft_run_cmd_from_buffer", ctypes.c_int, (context, text)),
            ("nft_ctx_get_output_buffer", text, (context,)),
            ("nft_ctx_get_error_buffer", text, (context,)),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        _loaded.append(library)
    return _loaded[0]
