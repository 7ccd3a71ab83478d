"""ServiceAccount: a name, and references that are not resolved here."""

from __future__ import annotations

from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject

_ENFORCE = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccountStrategy(KubernetesStrategy):
    """ServiceAccount."""

    returns_deleted = True

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        annotations = obj["metadata"].get("annotations") or {}
        before = ((old or {}).get("metadata") or {}).get("annotations") or {}
        if annotations.get(_ENFORCE) == "true" and before.get(_ENFORCE) != "true":
            return [
                f"metadata.annotations[{_ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access "
                "to mounted secrets"
            ]
        return []
