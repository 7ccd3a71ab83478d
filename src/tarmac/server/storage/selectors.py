"""Label and field selectors over stored bytes.

Entries hold bytes, so labels and selectable fields have to be decoded. An `Index` does so once per version and caches
the result at the entry; equal label sets, common among objects of one owner, share one dictionary. Names and namespaces
come from the key, and a byte search finds objects without labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tarmac.api.partial import read_labels
from tarmac.api.resource import Resource
from tarmac.api.status import BadRequest
from tarmac.base.selectors import FieldSelector, LabelMatcher
from tarmac.server.encoding import decode_json
from tarmac.server.storage.derived import Selected, derived
from tarmac.store.interface import Entry

_PLACE = ("metadata.name", "metadata.namespace")
_NO_LABELS: dict[str, str] = {}
_NOTHING = Selected(_NO_LABELS, _NO_LABELS)
_SHARED_SETS = 10_000


class Index:
    """Labels and selectable fields of one resource's entries."""

    __slots__ = ("_resource", "_shared")

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._shared: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}

    def look(self, entry: Entry) -> Selected:
        """Return the labels and selectable fields of an entry."""
        known = derived(entry)
        if known.selected is None:
            known.selected = self._read(entry)
        return known.selected

    def _read(self, entry: Entry) -> Selected:
        if self._resource.selectable:
            obj = decode_json(entry.raw)
            labels = obj["metadata"].get("labels") or _NO_LABELS
            return Selected(self._share(labels), self._share(self._resource.strategy.selectable_fields(obj)))
        # Finds nested labels too, such as those of a selector: they cost a decode, which then finds none.
        if b'"labels":{' not in entry.raw:
            return _NOTHING
        return Selected(self._share(read_labels(entry.raw)), _NO_LABELS)

    def _share(self, values: dict[str, str]) -> dict[str, str]:
        key = tuple(values.items())
        shared = self._shared.get(key)
        if shared is None:
            # Clients choose the labels, so the table needs a bound. Entries keep the sets that they refer to.
            if len(self._shared) >= _SHARED_SETS:
                self._shared.clear()
            shared = self._shared[key] = values
        return shared


class EntrySelection:
    """Both selectors of a request, resolved against one resource. Raises BadRequest for unsupported fields.

    `selectable` maps field names as clients know them to those of the index.
    """

    __slots__ = ("_fields", "_index", "_labels", "_placed", "key", "name", "namespace")

    def __init__(
        self, resource: Resource, index: Index, selectable: Mapping[str, str], labels: str, fields: str
    ) -> None:
        try:
            label_selector = LabelMatcher.parse(labels)
            field_selector = FieldSelector.parse(fields)
        except ValueError as error:
            raise BadRequest(str(error)) from None
        _check_supported(resource, selectable, field_selector)
        self._index = index
        self.key = (str(label_selector), str(field_selector))
        self.name = field_selector.exact("metadata.name")
        self.namespace = field_selector.exact("metadata.namespace")
        self._placed = FieldSelector([term for term in field_selector.requirements if term[0] in _PLACE])
        terms = [term for term in field_selector.requirements if term[0] not in _PLACE]
        # After `_check_supported`: an unknown name of a client would end here as a KeyError, and a 500.
        rest = FieldSelector([(selectable[field], operator, value) for field, operator, value in terms])
        self._labels = None if label_selector.everything else label_selector.matches
        self._fields = None if rest.everything else rest.matches

    @property
    def everything(self) -> bool:
        """True if it selects every object."""
        return self._labels is None and self._fields is None and self._placed.everything

    def matches(self, entry: Entry) -> bool:
        """Return whether the entry is selected."""
        return self.accepts(entry, lambda: self._index.look(entry))

    def accepts(self, entry: Entry, look: Callable[[], Selected]) -> bool:
        """Like `matches`, with a caller-supplied function that returns the entry's labels and fields."""
        if not self._placed.everything and not self._is_placed(entry):
            return False
        if self._labels is None and self._fields is None:
            return True
        seen = look()
        if self._labels is not None and not self._labels(seen.labels):
            return False
        return self._fields is None or self._fields(seen.fields)

    def _is_placed(self, entry: Entry) -> bool:
        namespace, _, name = entry.name.rpartition("/")
        return self._placed.matches({"metadata.name": name, "metadata.namespace": namespace})


def _check_supported(resource: Resource, selectable: Mapping[str, str], selector: FieldSelector) -> None:
    supported = _PLACE if resource.namespaced else _PLACE[:1]
    for field, _, _ in selector.requirements:
        if field not in supported and field not in selectable:
            raise BadRequest(_unsupported(resource, field))


def _unsupported(resource: Resource, field: str) -> str:
    if resource.native and not resource.selectable:
        return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    return f"field label not supported: {field}"
