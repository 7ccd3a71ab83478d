"""PriorityLevelConfiguration."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from tarmac.api import checks
from tarmac.api.kubernetes.flowcontrol.mandatory import EXEMPT, LEVELS
from tarmac.api.kubernetes.flowcontrol.schemas import FlowControlStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_SHARES: Final = 30
_QUEUING: Final = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
_MAX_QUEUES: Final = 10_000_000
_HASH_BITS: Final = 60
_KEEPS_ZERO: Final = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_NOT_NEGATIVE: Final = "must be a non-negative integer"


class PriorityLevelStrategy(FlowControlStrategy):
    """PriorityLevelConfiguration."""

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        for field, shares in (("exempt", 0), ("limited", _SHARES)):
            if (part := spec.get(field)) is not None:
                _fill(part, "nominalConcurrencyShares", shares)
                _fill(part, "lendablePercent", 0)
        if (queuing := checks.mapping(spec, "limited", "limitResponse").get("queuing")) is not None:
            queuing |= {field: queuing.get(field) or value for field, value in _QUEUING.items()}

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        name, spec = checks.metadata_of(obj).get("name", ""), obj["spec"]
        if _KEEPS_ZERO in checks.annotations_of(obj):
            errors.forbidden("metadata.annotations", f"annotation '{_KEEPS_ZERO}' is forbidden")
        kind = spec.get("type", "")
        if (name == EXEMPT) != (kind == "Exempt"):
            errors.invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
        if kind == "Exempt":
            _validate_exempt(spec, errors)
        elif kind == "Limited":
            _validate_limited(spec, errors)
        else:
            errors.not_supported("spec.type", kind, ("Exempt", "Limited"))
        _validate_mandatory(name, spec, errors)


def _fill(part: JsonObject, field: str, value: int) -> None:
    if part.get(field) is None:
        part[field] = value


def _validate_mandatory(name: str, spec: JsonObject, errors: FieldErrors) -> None:
    fixed = LEVELS.get(name)
    if fixed is None:
        return
    if name == EXEMPT:  # its shares may change
        if {**spec, "exempt": fixed["exempt"]} != fixed:
            text = f"spec of '{name}' except the 'spec.exempt' field must equal the fixed value"
            errors.invalid("spec", spec, text)
    elif spec != fixed:
        errors.invalid("spec", spec, f"spec of '{name}' must equal the fixed value")


def _validate_exempt(spec: JsonObject, errors: FieldErrors) -> None:
    if spec.get("limited") is not None:
        errors.forbidden("spec.limited", "must be nil if the type is not Limited")
    if (exempt := spec.get("exempt")) is not None:
        _validate_shares(exempt, "spec.exempt", errors)


def _validate_limited(spec: JsonObject, errors: FieldErrors) -> None:
    if spec.get("exempt") is not None:
        errors.forbidden("spec.exempt", "must be nil if the type is Limited")
    limited, path = spec.get("limited"), "spec.limited"
    if limited is None:
        errors.required(path, "must not be empty when type is Limited")
        return
    _validate_shares(limited, path, errors)
    _validate_response(checks.mapping(limited, "limitResponse"), f"{path}.limitResponse", errors)
    borrows = limited.get("borrowingLimitPercent")
    if borrows is not None and borrows < 0:
        errors.invalid(f"{path}.borrowingLimitPercent", borrows, f"if specified, {_NOT_NEGATIVE}")


def _validate_shares(part: JsonObject, path: str, errors: FieldErrors) -> None:
    shares, lends = part["nominalConcurrencyShares"], part["lendablePercent"]
    if shares < 0:
        errors.invalid(f"{path}.nominalConcurrencyShares", shares, _NOT_NEGATIVE)
    if not 0 <= lends <= 100:
        errors.invalid(f"{path}.lendablePercent", lends, "must be between 0 and 100, inclusive")


def _validate_response(response: JsonObject, path: str, errors: FieldErrors) -> None:
    kind, queuing = response.get("type", ""), response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            errors.forbidden(f"{path}.queuing", "must be nil if limited.limitResponse.type is not Limited")
    elif kind == "Queue":
        if queuing is None:
            errors.required(f"{path}.queuing", "must not be empty if limited.limitResponse.type is Limited")
        else:
            _validate_queuing(queuing, f"{path}.queuing", errors)
    else:
        errors.not_supported(f"{path}.type", kind, ("Queue", "Reject"))


def _validate_queuing(queuing: JsonObject, path: str, errors: FieldErrors) -> None:
    length, queues, hand = queuing["queueLengthLimit"], queuing["queues"], queuing["handSize"]
    _positive(length, f"{path}.queueLengthLimit", errors)
    if _positive(queues, f"{path}.queues", errors) and queues > _MAX_QUEUES:
        errors.invalid(f"{path}.queues", queues, f"must not be greater than {_MAX_QUEUES}")
    if not _positive(hand, f"{path}.handSize", errors):
        return
    if hand > queues:
        errors.invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif _entropy_exceeds(queues, hand):
        text = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
        errors.invalid(f"{path}.handSize", hand, text)


def _positive(value: Any, path: str, errors: FieldErrors) -> bool:
    if value <= 0:
        errors.invalid(path, value, "must be positive")
    return value > 0


def _entropy_exceeds(queues: int, hand: int) -> bool:
    """Return True if dealing a hand takes more hash bits than there are: the product of the hand's choices."""
    return hand > _HASH_BITS or prod(range(queues - hand + 1, queues + 1)) > 1 << _HASH_BITS
