"""Tables: what `kubectl get` shows, made by the server from a kind's columns.

Column definitions never change, so they are encoded once per resource. Kinds without columns of their own show a name
and a creation time, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from tarmac.api.kubernetes.descriptions import field_descriptions
from tarmac.api.resource import Column, Resource
from tarmac.api.schema import JsonObject
from tarmac.server.printing.metadata import partial_metadata
from tarmac.server.storage.encoding import decode_json, encode_json

_NAME = "Name must be unique within a namespace."
_CREATED = "CreationTimestamp is a timestamp representing the server time when this object was created."
_DEFAULT = (
    Column("Name", lambda obj, _: obj["metadata"].get("name", ""), format="name", description=_NAME),
    Column("Created At", lambda obj, _: obj["metadata"].get("creationTimestamp"), "date", description=_CREATED),
)


class TablePrinter:
    """The table of one resource."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._columns = resource.columns or _DEFAULT

    @cached_property
    def definitions(self) -> bytes:
        """The encoded column definitions; made on first use, since descriptions may come from the schema."""
        return encode_json(_definitions(self._columns, self._resource))

    def table(self, list_metadata: bytes, rows: Iterable[bytes], *, definitions: bool = True) -> bytes:
        """The whole table; only the first event of a watch has definitions."""
        return b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":%b,"columnDefinitions":%b,"rows":[%b]}' % (
            list_metadata,
            self.definitions if definitions else b"null",
            b",".join(rows),
        )

    def rows(self, raws: Iterable[bytes], now: float, include: str) -> Iterator[bytes]:
        """One row for each object."""
        for raw in raws:
            yield self.row(raw, now, include)

    def row(self, raw: bytes, now: float, include: str) -> bytes:
        """The cells of one object, and as much of the object itself as `include` says."""
        obj: JsonObject = decode_json(raw)
        cells = encode_json([column.value(obj, now) for column in self._columns])
        shown = {"None": b"null", "Object": raw}.get(include) or partial_metadata(raw)
        conditions = self._resource.strategy.row_conditions(obj)
        noted = b',"conditions":%b' % encode_json(conditions) if conditions else b""
        return b'{"cells":%b%b,"object":%b}' % (cells, noted, shown)

    def empty_row(self, shown: bytes) -> bytes:
        """A row that says nothing of the object it stands for."""
        return b'{"cells":%b,"object":%b}' % (encode_json([""] * len(self._columns)), shown)


def _definitions(columns: Sequence[Column], resource: Resource) -> list[JsonObject]:
    """A description that is a path (`.spec.nodeName`) stands for the description of that field."""
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
