"""What the flags of a command say about its controllers."""

from __future__ import annotations

import argparse

from tarmac.controllers.context import Settings


def settings_of(options: argparse.Namespace) -> Settings:
    """The operator's choices."""
    return Settings(options.node_monitor_grace_period, options.metrics_url, options.scheduler_names)
