"""Every rule that must hold at every moment."""

from __future__ import annotations

from tarmac.sim.checker.external import HeldOnce, RulesAreGranted
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
    """Every rule, fresh."""
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
        RulesAreGranted(),
    ]
