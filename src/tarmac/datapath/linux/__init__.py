"""Networks of a Linux node, built with netlink, network namespaces and nftables."""

from __future__ import annotations

from tarmac.datapath.linux.datapath import LinuxDatapath

__all__ = ["LinuxDatapath"]
