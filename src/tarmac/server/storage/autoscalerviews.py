"""`autoscaling/v1` as a second view of HorizontalPodAutoscalers."""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.api.kubernetes.autoscaling import firstversion
from tarmac.api.schema import JsonObject


class FirstAutoscalerView:
    """HorizontalPodAutoscalers shown as `autoscaling/v1`."""

    selectable: Mapping[str, str] = {}

    def shown(self, stored: JsonObject) -> JsonObject:
        """Convert to `autoscaling/v1`."""
        return firstversion.shown(stored)

    def stored(self, shown: JsonObject) -> JsonObject:
        """Convert to `autoscaling/v2`."""
        return firstversion.stored(shown)
