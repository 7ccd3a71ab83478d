"""The name of the agent's socket in the folder of device plugins."""

from __future__ import annotations

from typing import Final

SOCKET: Final = "kubelet.sock"
