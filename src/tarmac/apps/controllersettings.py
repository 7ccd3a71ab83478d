"""Controller settings of a command's flags."""

from __future__ import annotations

import argparse
from typing import Final

from tarmac.base.gates import CLASS_RESOURCES, WAY_IN, BadGate, FeatureGates, Part
from tarmac.controllers.context import DEFAULT_SCHEDULER, Settings
from tarmac.controllers.manager import WORKLOADS
from tarmac.decide.derived.pods import SCHEDULER

EVERYTHING: Final = "*"


def gates_of(options: argparse.Namespace, *parts: Part) -> FeatureGates:
    """Return the feature gates of these parts of the process. Raises BadGate."""
    try:
        return FeatureGates(parts, options.feature_gates)
    except BadGate as error:
        raise BadGate(f"--feature-gates: {error}") from error


def names_of(options: argparse.Namespace, *, beside: bool = False) -> str:
    """Return the controllers to run: with a foreign API server only those of Workloads, unless a flag names them."""
    return options.controllers if options.controllers is not None else WORKLOADS if beside else EVERYTHING


def settings_of(options: argparse.Namespace, gates: FeatureGates, *, beside: bool = False) -> Settings:
    """Return the operator's settings.

    In a foreign cluster, pods without a scheduler name belong to its own scheduler.
    """
    usual = (SCHEDULER,) if beside else (SCHEDULER, DEFAULT_SCHEDULER)
    return Settings(
        node_grace=options.node_monitor_grace_period,
        metrics_url=options.metrics_url,
        autoscaling_period=options.autoscaler_sync_period,
        scheduler_names=options.scheduler_names if options.scheduler_names is not None else usual,
        class_resources=gates.enabled(CLASS_RESOURCES),
        way_in=gates.enabled(WAY_IN),
    )
