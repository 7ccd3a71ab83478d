"""Rules that all of Tarmac's own kinds share.

Defaults and bounds come from the declaration. A kind overrides `check_spec` for rules that a schema cannot express,
lists the immutable parts of its spec in `immutable`, and reports all causes together. Status writes are checked by the
schema alone, since only controllers make them.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from tarmac.api.columns import lookup
from tarmac.api.constraints import check
from tarmac.api.declare import fill_defaults, schema_of
from tarmac.api.resource import Strategy
from tarmac.api.schema import JsonObject, Schema
from tarmac.base.fielderrors import FieldErrors

IMMUTABLE = "field is immutable"


class OwnStrategy(Strategy):
    """The rules of one declared kind."""

    has_status = True
    allow_unconditional_update = False
    immutable: tuple[str, ...] = ()  # dotted paths

    def __init__(self, struct: type[msgspec.Struct]) -> None:
        self._struct = struct

    @cached_property
    def schema(self) -> Schema:
        """Schema of spec and status; metadata is checked by the server."""
        return schema_of(self._struct)

    def default(self, obj: JsonObject) -> None:
        """Store the declared defaults."""
        for part in ("spec", "status"):
            if isinstance(obj.get(part), dict):
                fill_defaults(obj[part], self.schema.fields[part])

    def prepare_for_create(self, obj: JsonObject) -> None:
        """Drop the status: only controllers write it, through the subresource."""
        obj.pop("status", None)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        """Keep the old status: only controllers write it, through the subresource."""
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        """Check the bounds of the declaration, then the rules of the kind."""
        if obj.get("spec") is None:
            errors.required("spec")
            return
        self.check_bounds(obj["spec"], errors)
        self.check_spec(obj, None, errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        """Check as on create, and reject changes of immutable fields."""
        if new.get("spec") is None:
            errors.required("spec")
            return
        self.check_bounds(new["spec"], errors)
        self.check_spec(new, old, errors)
        for path in self.immutable:
            if lookup(new, path) != lookup(old, path):
                errors.invalid(path, lookup(new, path), IMMUTABLE)

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        """Check the bounds of the declaration."""
        if new.get("status") is not None:
            check(new["status"], self.schema.fields["status"], "status", errors)

    def check_bounds(self, spec: JsonObject, errors: FieldErrors) -> None:
        """Check the declared bounds of the spec. Kinds with error messages of their own for every rule override it."""
        check(spec, self.schema.fields["spec"], "spec", errors)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check rules that a schema cannot express. `old` is None on create."""
