"""`tarmac device-plugin nvidia`: offers the GPUs of this machine to kubelet, or to the agent, until a signal.

It runs on every GPU machine for ever, so the agent starts it as `python -m tarmac.apps.deviceplugin`, which takes the
same flags and is smaller by a third: it loads no other command, and no TLS.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, cast


def main(options: argparse.Namespace) -> int:
    """Run the plugin; return the exit code: 0 after a signal, 1 without a driver or GPU, 78 for a wrong setting."""
    from tarmac.agent.devices.nvidia.pluginprocess import run

    return run(options)


def _alone() -> int:
    # asyncio works without ssl, which takes 5 MB; all sockets here are Unix sockets.
    sys.modules.setdefault("ssl", cast(Any, None))
    from tarmac.cli.deviceplugin import add_device_plugin_flags

    parser = argparse.ArgumentParser(prog="tarmac device-plugin")
    add_device_plugin_flags(parser)
    return main(parser.parse_args())


if __name__ == "__main__":
    sys.exit(_alone())
