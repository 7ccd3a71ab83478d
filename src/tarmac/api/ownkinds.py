"""Rules that all of Tarmac's own kinds share.

Defaults and bounds come from the declaration. A kind adds what a schema cannot say by overriding `check_spec`, names
the parts of its spec that never change in `immutable`, and gets all causes reported together. Status writes are
checked by the schema alone, since only controllers make them.
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
        """Status is the platform's to write."""
        obj.pop("status", None)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        """Status is the platform's to write."""
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        """Bounds of the declaration, then the rules of the kind."""
        if obj.get("spec") is None:
            errors.required("spec")
            return
        self.check_bounds(obj["spec"], errors)
        self.check_spec(obj, None, errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        """As on create, and what may not change has not."""
        if new.get("spec") is None:
            errors.required("spec")
            return
        self.check_bounds(new["spec"], errors)
        self.check_spec(new, old, errors)
        for path in self.immutable:
            if lookup(new, path) != lookup(old, path):
                errors.invalid(path, lookup(new, path), IMMUTABLE)

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        """Bounds of the declaration."""
        if new.get("status") is not None:
            check(new["status"], self.schema.fields["status"], "status", errors)

    def check_bounds(self, spec: JsonObject, errors: FieldErrors) -> None:
        """What the declaration says about the spec. Kinds that word everything themselves override it."""
        check(spec, self.schema.fields["spec"], "spec", errors)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """What a schema cannot say. `old` is None on create."""
