"""UDP ports of nodes: tunnels, leases and probes.

A port stands for one purpose on every node. Firewalls between sites and captures tell packets apart by port alone, also
where a tunnel and a probe would be in different network namespaces.
"""

from __future__ import annotations

from typing import Final

TUNNEL_PORT: Final = 4789
"""Tunnels of Networks (VXLAN)."""
EXTERNAL_PORT: Final = 4800
"""Tunnel of external services, separate from that of Networks (VXLAN)."""
LEASE_PORT: Final = 4801
"""Lease messages of SourceIPs between agents."""
ENCRYPTED_PORT: Final = 4802
"""WireGuard, which carries tunnels between cities."""
PROBE_PORT: Final = 4803
"""Tunnel probes, inside Networks."""
INGRESS_LEASE_PORT: Final = 4804
"""Lease messages of public addresses between agents."""
INGRESS_PORT: Final = 4805
"""Tunnel for connections to public addresses (VXLAN)."""

NODES_OWN: Final = (TUNNEL_PORT, EXTERNAL_PORT, LEASE_PORT, ENCRYPTED_PORT, INGRESS_LEASE_PORT, INGRESS_PORT)
"""Ports on nodes that pods may not send to: a pod must not pass for a node. Probes have addresses of their own."""
