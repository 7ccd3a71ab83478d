"""Runs the plugin from its command line until a signal."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal

from tarmac.agent.devices.nvidia.gpunames import checked_names
from tarmac.agent.devices.nvidia.program import NvidiaPlugin, PluginSettings, check_driver
from tarmac.base.clock import SystemClock
from tarmac.base.log import configure
from tarmac.base.stderr import print_error
from tarmac.base.tasks import background, first


def run(options: argparse.Namespace) -> int:
    """Run the plugin; return the exit code."""
    configure(level="debug" if options.verbose else "info")
    try:
        names = checked_names(options.names)
    except ValueError as error:
        print_error(f"--names: {error}")
        return os.EX_CONFIG
    if why := check_driver(options.root):
        print_error(why)
        return 1
    settings = PluginSettings(options.device_plugin_dir, options.root, options.report, names, interval=options.interval)
    asyncio.run(_until_a_signal(settings))
    return 0


async def _until_a_signal(settings: PluginSettings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    gc.freeze()  # what is loaded by now stays
    async with background(NvidiaPlugin(settings, SystemClock()).run(), "NVIDIA device plugin") as work:
        await first(asyncio.wait([work]), stopping.wait())
        if work.done():
            await work  # it never returns normally: this raises its error
