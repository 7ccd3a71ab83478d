"""Amounts of resources: parseable, integers where required, and not negative."""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Format, Quantity

# Resources counted in bytes, which have no fractions.
_BYTES = frozenset({"memory", "storage", "ephemeral-storage"})


def amount(name: str, written: str | float, path: str, errors: FieldErrors) -> Quantity | None:
    """Return the amount, or None if it was rejected."""
    try:
        quantity = Quantity.parse(written)
    except ValueError as error:
        errors.invalid(path, written, str(error))
        return None
    if quantity.nanos < 0:
        errors.invalid(path, written, "must be greater than or equal to 0")
    elif name in _BYTES and not quantity.is_integer():
        errors.invalid(path, written, f"must be a whole number of bytes; did you mean {_in_mebibytes(quantity)}?")
    elif "/" in name and not quantity.is_integer():
        errors.invalid(path, written, "must be an integer")
    else:
        return quantity
    return None


def amounts(written: Mapping[str, str | float], path: str, errors: FieldErrors) -> dict[str, Quantity]:
    """Return all valid amounts of a resource list; invalid ones are reported at `path[name]`."""
    found = {name: amount(name, value, f"{path}[{name}]", errors) for name, value in written.items()}
    return {name: quantity for name, quantity in found.items() if quantity is not None}


def _in_mebibytes(quantity: Quantity) -> str:
    """Return the amount meant by a user who wrote 256m for memory: 256Mi."""
    return str(Quantity.of(quantity.milli() << 20, Format.BINARY_SI))
