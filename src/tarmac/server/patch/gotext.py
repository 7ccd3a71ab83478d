"""Formats values as Go prints them, for messages that match upstream's."""

from __future__ import annotations

from typing import Any

from tarmac.api.status import ApiError

_TYPES = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", int: "int64", float: "float64"}


def unclassified(message: str) -> ApiError:
    """Return an error that upstream passes on unclassified: status 500 without a reason."""
    return ApiError(message, reason="")


def go_type(value: Any) -> str:
    """%T."""
    return "<nil>" if value is None else _TYPES.get(type(value), "bool")


def go_text(value: Any) -> str:
    """%v."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_text(item) for item in value) + "]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def go_syntax(value: Any) -> str:
    """%#v."""
    if isinstance(value, dict):
        inner = ", ".join(f'"{name}":{go_syntax(value[name])}' for name in sorted(value))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(go_syntax(item) for item in value)}}}"
    if isinstance(value, str):
        return f'"{value}"'
    return "interface {}(nil)" if value is None else str(value).lower()
