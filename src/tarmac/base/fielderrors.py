"""Field errors, worded as Kubernetes words them.

Validators collect into one `FieldErrors`; nothing stops at the first mistake, so a user sees every cause at once, up to
a number that nobody reads through. There validation ends: a hostile object is not looked at to its end, and does not
make an answer many times its own size.

    with FieldErrors() as errors:
        validate(obj, errors)

Paths are plain strings (`spec.containers[0].name`, `metadata.labels[app]`), built by the caller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

# error kind -> (reason in Status.details.causes, text that starts the message)
KINDS = {
    "Required": ("FieldValueRequired", "Required value"),
    "Invalid": ("FieldValueInvalid", "Invalid value"),
    "NotSupported": ("FieldValueNotSupported", "Unsupported value"),
    "Forbidden": ("FieldValueForbidden", "Forbidden"),
    "Duplicate": ("FieldValueDuplicate", "Duplicate value"),
    "NotFound": ("FieldValueNotFound", "Not found"),
    "TooLong": ("FieldValueTooLong", "Too long"),
    "TooMany": ("FieldValueTooMany", "Too many"),
    "TypeInvalid": ("FieldValueTypeInvalid", "Invalid value"),
    "InternalError": ("InternalError", "Internal error"),
}
MOST_CAUSES = 200
_LONGEST_SHOWN = 16 * 1024  # characters of a text
_VALUELESS = {"Required", "Forbidden", "InternalError", "TooLong"}


class FieldError(NamedTuple):
    """One cause."""

    kind: str
    path: str
    value: Any
    detail: str

    @property
    def reason(self) -> str:
        """The machine-readable reason of the cause."""
        return KINDS[self.kind][0]

    @property
    def message(self) -> str:
        """Kind, value and detail, without the path."""
        text = KINDS[self.kind][1]
        if self.kind not in _VALUELESS:
            text = f"{text}: {_show(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Enough(Exception):
    """There are `MOST_CAUSES` already. Ends the validation; the block of the collection takes it."""


class FieldErrors:
    """An ordered collection of causes, and a block that ends when it is full."""

    __slots__ = ("causes", "cut_short")

    def __init__(self) -> None:
        self.causes: list[FieldError] = []
        self.cut_short = False  # whether there was one more cause than is kept

    def __enter__(self) -> FieldErrors:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, Enough)

    def __bool__(self) -> bool:
        return bool(self.causes)

    def __iter__(self) -> Iterator[FieldError]:
        return iter(self.causes)

    def __len__(self) -> int:
        return len(self.causes)

    def add(self, kind: str, path: str, value: Any = None, detail: str = "") -> None:
        """Append one cause of any kind."""
        if len(self.causes) >= MOST_CAUSES:
            self.cut_short = True
            raise Enough
        self.causes.append(FieldError(kind, path, value, detail))

    def required(self, path: str, detail: str = "") -> None:
        """A value that must be there is not."""
        self.add("Required", path, None, detail)

    def invalid(self, path: str, value: Any, detail: str) -> None:
        """A value breaks a rule."""
        self.add("Invalid", path, value, detail)

    def not_supported(self, path: str, value: Any, supported: Iterable[str]) -> None:
        """A value is not one of a closed set."""
        self.add("NotSupported", path, value, "supported values: " + ", ".join(json.dumps(item) for item in supported))

    def forbidden(self, path: str, detail: str) -> None:
        """A field may not be set, or not be changed, here."""
        self.add("Forbidden", path, None, detail)

    def duplicate(self, path: str, value: Any) -> None:
        """A value that must be unique is there twice."""
        self.add("Duplicate", path, value)

    def not_found(self, path: str, value: Any, detail: str = "") -> None:
        """A value refers to something that does not exist."""
        self.add("NotFound", path, value, detail)

    def too_long(self, path: str, value: Any, limit: int) -> None:
        """A string has more bytes than allowed."""
        self.add("TooLong", path, value, f"may not be more than {limit} bytes")

    def too_many(self, path: str, count: int, limit: int) -> None:
        """A list or map has more items than allowed."""
        noun = "item" if limit == 1 else "items"
        self.add("TooMany", path, count, f"must have at most {limit} {noun}")

    def type_invalid(self, path: str, value: Any, detail: str) -> None:
        """A value has the wrong JSON type."""
        self.add("TypeInvalid", path, value, detail)

    def internal(self, path: str, detail: str) -> None:
        """The check itself could not be made."""
        self.add("InternalError", path, None, detail)


def _show(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}…", ensure_ascii=False)
    if value is None:
        return "null"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
