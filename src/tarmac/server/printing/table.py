"""Tables for `kubectl get`, computed by the server from a kind's columns.

Column definitions never change, so they are encoded once per resource. Cells change only with the object's version,
except for ages: a `TableRow` holds the encoded cells with the start times of ages between them, and rendering it again
takes a few additions. Kinds without columns show name and creation time, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import msgspec

from tarmac.api.openapi.descriptions import field_descriptions
from tarmac.api.resource import Age, Column, Resource
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.base.duration import human_duration
from tarmac.server.encoding import decode_json, encode_json
from tarmac.server.printing.metadata import partial_metadata

_NAME = "Name must be unique within a namespace."
_CREATED = "CreationTimestamp is a timestamp representing the server time when this object was created."
_DEFAULT = (
    Column("Name", lambda obj: obj["metadata"].get("name", ""), format="name", description=_NAME),
    Column("Created At", lambda obj: obj["metadata"].get("creationTimestamp"), "date", description=_CREATED),
)


_MARK = b"\0"


class TableRow(NamedTuple):
    """The row of one version of an object, without the object: text, an age, text, an age, …, text."""

    texts: tuple[bytes, ...]
    moments: tuple[float, ...]  # start times of the ages between the texts

    def at(self, now: float, shown: bytes) -> bytes:
        """Render the row at the time `now`; `shown` is the encoded part of the object to include."""
        texts, moments = self
        if len(moments) == 1:  # nearly all rows
            return b"%b%b%b%b}" % (texts[0], _age(int(now - moments[0])), texts[1], shown)
        ages = [*(_age(int(now - moment)) for moment in moments), shown]
        return b"".join([part for pair in zip(texts, ages, strict=True) for part in pair]) + b"}"


@lru_cache(maxsize=8192)
def _age(seconds: int) -> bytes:
    return human_duration(seconds).encode()


@lru_cache(maxsize=512)
def _around(age_text: str) -> msgspec.Raw:
    """Return the encoded text around an age, with the mark in place of the age."""
    return msgspec.Raw(encode_json(age_text).replace(b"%s", _MARK))


class TablePrinter:
    """Renders the table of one resource."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._columns = resource.columns or _DEFAULT

    @cached_property
    def definitions(self) -> bytes:
        """The encoded column definitions; computed on first use, since descriptions may come from the schema."""
        return encode_json(_definitions(self._columns, self._resource))

    def table(self, list_metadata: bytes, rows: Iterable[bytes], *, definitions: bool = True) -> bytes:
        """Return the whole table; only the first event of a watch has definitions."""
        return b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":%b,"columnDefinitions":%b,"rows":[%b]}' % (
            list_metadata,
            self.definitions if definitions else b"null",
            b",".join(rows),
        )

    def head(self, list_metadata: bytes) -> bytes:
        """Return the bytes before the rows of a table that is rendered in chunks."""
        return self.table(list_metadata, ())[: -len(b"[]}")]

    def row(self, raw: bytes, now: float, include: str) -> bytes:
        """Return the cells of one object, and the part of the object that `include` asks for."""
        shown = {"None": b"null", "Object": raw}.get(include) or partial_metadata(raw)
        return self.work_out(raw).at(now, shown)

    def work_out(self, raw: bytes) -> TableRow:
        """Return the row of an object, to be rendered at any time."""
        obj: JsonObject = decode_json(raw)
        cells = [column.value(obj) for column in self._columns]
        ages = [cell for cell in cells if type(cell) is Age]
        # An age is replaced by its text with a mark. Other cells cannot contain the mark: JSON encoding escapes control
        # characters.
        cells = [_around(cell.text) if type(cell) is Age else cell for cell in cells]
        conditions = self._resource.strategy.row_conditions(obj)
        noted = b',"conditions":%b' % encode_json(conditions) if conditions else b""
        text = b'{"cells":%b%b,"object":' % (encode_json(cells), noted)
        return TableRow(tuple(text.split(_MARK)), tuple(parse_rfc3339(age.since) for age in ages))

    def empty_row(self, shown: bytes) -> bytes:
        """Return a row with empty cells."""
        return b'{"cells":%b,"object":%b}' % (encode_json([""] * len(self._columns)), shown)


def _definitions(columns: Sequence[Column], resource: Resource) -> list[JsonObject]:
    """Return the column definitions.

    A description that is a path (`.spec.nodeName`) stands for that field's description.
    """
    paths = [column.description for column in columns if column.description.startswith(".")]
    described = field_descriptions(resource, paths) if paths else {}
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": described.get(column.description, column.description),
            "priority": column.priority,
        }
        for column in columns
    ]
