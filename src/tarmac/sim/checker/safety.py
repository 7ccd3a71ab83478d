"""The list of all safety rules."""

from __future__ import annotations

from tarmac.sim.checker.egressrules import HeldOnce, PublicAddressHeldOnce, RulesAreGranted
from tarmac.sim.checker.replay import CheckerRule
from tarmac.sim.checker.rollouts import WavesHold
from tarmac.sim.checker.rules import (
    AddressesAreUnique,
    BoundOnce,
    LeasesAreTrusted,
    MachinesEndBeforeTheyStartAgain,
    NeverRefused,
    NeverTooMany,
    OrdinalsAreUnique,
    QuotaHolds,
    RevisionsGrow,
)


def safety() -> list[CheckerRule]:
    """Return new instances of all rules."""
    return [
        OrdinalsAreUnique(),
        AddressesAreUnique(),
        NeverTooMany(),
        QuotaHolds(),
        RevisionsGrow(),
        BoundOnce(),
        NeverRefused(),
        LeasesAreTrusted(),
        MachinesEndBeforeTheyStartAgain(),
        WavesHold(),
        HeldOnce(),
        PublicAddressHeldOnce(),
        RulesAreGranted(),
    ]
