"""The base strategy of Kubernetes' simpler kinds."""

from __future__ import annotations

from tarmac.api.resource import Strategy
from tarmac.api.schema import JsonObject


class KubernetesStrategy(Strategy):
    """Rules of a kind without `metadata.generation`, as most of Kubernetes' own."""

    generation = False

    def prepare_for_status_update(self, new: JsonObject, old: JsonObject) -> None:
        # unlike custom resources, Kubernetes' own kinds allow a status write to change labels and annotations too
        kept = {key: value for key, value in old.items() if key not in ("metadata", "status")}
        state, metadata = new.get("status"), new["metadata"]
        new.clear()
        new.update(kept)
        new["metadata"] = metadata
        if state is not None:
            new["status"] = state
