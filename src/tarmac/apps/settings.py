"""What the flags of a command say about its controllers."""

from __future__ import annotations

import argparse

from tarmac.controllers.context import Settings


def settings_of(options: argparse.Namespace) -> Settings:
    """The operator's choices."""
    return Settings(
        node_grace=options.node_monitor_grace_period,
        metrics_url=options.metrics_url,
        autoscaling_period=options.autoscaler_sync_period,
        scheduler_names=options.scheduler_names,
    )
