"""Query parameters of writes and lists, validated as in Kubernetes.

All errors in one set of options are reported together, as an Invalid of `CreateOptions` and so on. Requests without a
query share one ready-made value.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

from tarmac.api.status import BadRequest, invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.http.messages import Request
from tarmac.server.requestinfo import boolean

FieldValidation = Literal["Ignore", "Warn", "Strict"]

_META_GROUP = "meta.k8s.io"
_MANAGER_LIMIT = 128
_MAX_DIGITS = 20  # digits; longer ones are out of range and not parsed


class WriteOptions(NamedTuple):
    """The common fields of CreateOptions, UpdateOptions and PatchOptions, and `force` of the last."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: FieldValidation = "Warn"
    force: bool = False


_PLAIN = WriteOptions()


def write_options(kind: str, request: Request, *, apply: bool = False) -> WriteOptions:
    """Return the options of a write; `kind` is their name in error messages. Raises Invalid."""
    if not request.query and not apply:
        return _PLAIN
    errors = FieldErrors()
    dry_run = check_dry_run(request.params().get("dryRun", []), errors)
    manager = request.param("fieldManager")
    force = boolean(request, "force")
    if kind == "PatchOptions":
        _check_patch_options(apply, manager, force, errors)
    if len(manager.encode()) > _MANAGER_LIMIT:
        errors.too_long("fieldManager", manager, _MANAGER_LIMIT)
    elif not manager.isprintable():
        position, bad = next((at, each) for at, each in enumerate(manager) if not each.isprintable())
        errors.invalid("fieldManager", manager, f"invalid character U+{ord(bad):04X} (at position {position})")
    validation = request.param("fieldValidation")
    if validation not in ("", "Ignore", "Warn", "Strict"):
        errors.not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"])
    if errors:
        raise invalid(_META_GROUP, kind, "", errors)
    return WriteOptions(dry_run, manager, cast("FieldValidation", validation or "Warn"), force is True)


def _check_patch_options(apply: bool, manager: str, force: bool | None, errors: FieldErrors) -> None:
    if apply and not manager:
        errors.required("fieldManager", "is required for apply patch")
    if not apply and force is not None:
        errors.forbidden("force", "may not be specified for non-apply patch")


def check_dry_run(values: list[str], errors: FieldErrors) -> bool:
    """Return whether the request is a dry run. `All` is the only valid value."""
    if any(value != "All" for value in values):
        errors.not_supported("dryRun", values, ["All"])
    return bool(values)


def integer(request: Request, name: str) -> int | None:
    """Return an integer query parameter, or None. Raises BadRequest."""
    if name not in request.params():
        return None
    text = request.param(name)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(digits) > _MAX_DIGITS or not -(1 << 63) <= int(text) < 1 << 63:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


class ListOptions(NamedTuple):
    """Decoded options of a list or a watch."""

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""
    timeout_seconds: int | None = None
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None


_EVERYTHING = ListOptions()


def list_options(request: Request, *, watch: bool) -> ListOptions:
    """Return the options of a list, a watch or a deletecollection. Raises Invalid."""
    if not request.query:
        return _EVERYTHING
    options = ListOptions(
        request.param("labelSelector"),
        request.param("fieldSelector"),
        request.param("resourceVersion"),
        request.param("resourceVersionMatch"),
        max(0, integer(request, "limit") or 0),
        request.param("continue"),
        integer(request, "timeoutSeconds"),
        boolean(request, "allowWatchBookmarks") is True,
        boolean(request, "sendInitialEvents"),
    )
    errors = FieldErrors()
    (_check_watch if watch else _check_list)(options, errors)
    if errors:
        raise invalid(_META_GROUP, "ListOptions", "", errors)
    return options


def _check_list(options: ListOptions, errors: FieldErrors) -> None:
    match = options.resource_version_match
    path = "resourceVersionMatch"
    if match:
        if not options.resource_version:
            errors.forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided")
        if options.continue_token:
            errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided")
        if match not in ("Exact", "NotOlderThan"):
            errors.not_supported(path, match, ["Exact", "NotOlderThan", ""])
        if match == "Exact" and options.resource_version == "0":
            errors.forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if options.send_initial_events is not None:
        errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _check_watch(options: ListOptions, errors: FieldErrors) -> None:
    match = options.resource_version_match
    path = "resourceVersionMatch"
    if options.send_initial_events is not None and match != "NotOlderThan":
        errors.forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if match:
        if options.send_initial_events is None:
            errors.forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        if match != "NotOlderThan":
            errors.not_supported(path, match, ["NotOlderThan"])
        if options.continue_token:
            errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided")


def parse_revision(text: str) -> int:
    """Return a resource version as a number; empty is 0. Raises ValueError with Go's wording."""
    if not text:
        return 0
    why = ""
    if not text.isascii() or not text.isdigit():
        why = "invalid syntax"
    # The length first: int() takes quadratic time for long texts, and raises beyond 4300 digits.
    elif len(text) > _MAX_DIGITS or int(text) >= 1 << 64:
        why = "value out of range"
    if why:
        raise ValueError(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}')
    return int(text)
