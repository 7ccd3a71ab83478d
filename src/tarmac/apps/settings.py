"""What the flags of a command say about its controllers."""

from __future__ import annotations

import argparse
from typing import Final

from tarmac.base.gates import CLASS_RESOURCES, BadGate, FeatureGates, Part
from tarmac.controllers.context import DEFAULT_SCHEDULER, Settings
from tarmac.controllers.manager import WORKLOADS
from tarmac.decide.children.pods import SCHEDULER

EVERYTHING: Final = "*"


def gates_of(options: argparse.Namespace, *parts: Part) -> FeatureGates:
    """What the flag says to these parts of the process. Raises BadGate."""
    try:
        return FeatureGates(parts, options.feature_gates)
    except BadGate as error:
        raise BadGate(f"--feature-gates: {error}") from error


def names_of(options: argparse.Namespace, *, beside: bool = False) -> str:
    """Which controllers run. Beside an API server of others only those of Workloads do, unless somebody says so."""
    return options.controllers if options.controllers is not None else WORKLOADS if beside else EVERYTHING


def settings_of(options: argparse.Namespace, gates: FeatureGates, *, beside: bool = False) -> Settings:
    """The operator's choices. Pods that name no scheduler are others' where the cluster is."""
    usual = (SCHEDULER,) if beside else (SCHEDULER, DEFAULT_SCHEDULER)
    return Settings(
        node_grace=options.node_monitor_grace_period,
        metrics_url=options.metrics_url,
        autoscaling_period=options.autoscaler_sync_period,
        scheduler_names=options.scheduler_names if options.scheduler_names is not None else usual,
        class_resources=gates.enabled(CLASS_RESOURCES),
    )
