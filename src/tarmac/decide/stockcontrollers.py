"""The Lease by which a running kube-controller-manager is recognised.

The program renews it while it leads, so an old Lease, or none, means that it does not run, wherever it was started.
"""

from __future__ import annotations

from typing import Final

from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339

LEASE: Final = "kube-system/kube-controller-manager"
START: Final = "start `tarmac up` with --with-kubernetes-controllers, or describe it as a Workload"
_MAX_AGE: Final = 60.0  # seconds; four times the duration of the Lease, which a restart may let pass


def leads(lease: JsonObject | None, now: float) -> bool:
    """Return whether a kube-controller-manager renews its Lease."""
    renewed = ((lease or {}).get("spec") or {}).get("renewTime")
    return renewed is not None and now - parse_rfc3339(renewed) < _MAX_AGE
