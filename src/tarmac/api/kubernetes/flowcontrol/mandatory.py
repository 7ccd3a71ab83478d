"""The objects that exist in every cluster, with specs that cannot change, as in Kubernetes."""

from __future__ import annotations

from typing import Final

from tarmac.api.schema import JsonObject

AUTO_UPDATE: Final = "apf.kubernetes.io/autoupdate-spec"
EXEMPT: Final = "exempt"
CATCH_ALL: Final = "catch-all"

_EVERYTHING: Final[JsonObject] = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


def _groups(*names: str) -> list[JsonObject]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


SCHEMAS: Final[dict[str, JsonObject]] = {
    EXEMPT: {
        "priorityLevelConfiguration": {"name": EXEMPT},
        "matchingPrecedence": 1,
        "rules": [{"subjects": _groups("system:masters"), **_EVERYTHING}],
    },
    CATCH_ALL: {
        "priorityLevelConfiguration": {"name": CATCH_ALL},
        "matchingPrecedence": 10000,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": _groups("system:unauthenticated", "system:authenticated"), **_EVERYTHING}],
    },
}
LEVELS: Final[dict[str, JsonObject]] = {
    EXEMPT: {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    CATCH_ALL: {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 5,
            "limitResponse": {"type": "Reject"},
            "lendablePercent": 0,
        },
    },
}
