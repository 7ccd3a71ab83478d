"""Eviction thresholds of the configuration, with kubelet's defaults."""

from __future__ import annotations

from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.decide.allocatable.thresholds import DEFAULT_HARD


def hard_evictions(kubelet: KubeletConfiguration) -> dict[str, str]:
    """Return the thresholds below which pods are evicted at once."""
    stated = kubelet.eviction_hard
    if stated is None or kubelet.merge_default_eviction_settings:
        return {**DEFAULT_HARD, **(stated or {})}
    return stated
