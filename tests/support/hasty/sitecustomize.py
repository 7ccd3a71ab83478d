"""Rotations of keys in seconds: put this folder first in PYTHONPATH, and servers and agents that start wait less.

Python reads this file before anything else. The waits keep their conditions and their order.
"""

from __future__ import annotations

import sys

if "agent" in sys.orig_argv:
    from tarmac.agent.node.certificates import rotation
    from tarmac.client import authorities

    rotation.__dict__.update(SPREAD=2.0, _CHECK_INTERVAL=1.0)
    authorities.__dict__.update(POLL_INTERVAL=1.0)
elif "server" in sys.orig_argv:
    from tarmac.apps import rotating
    from tarmac.server.security.keys import rotation as rotations

    rotating.__dict__.update(INTERVAL=0.5)
    rotations.__dict__.update(MIN_STAGE_SECONDS=3.0)
