"""The catalogue of reasons is complete, unique, worded and documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tarmac.decide import reasons
from tarmac.decide.reasons import CATALOGUE, Actor, priority, reason

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "reasons.md"

# Codes of the specification, so that renaming a constant loses none.
SPECIFIED = re.findall(
    r"\w+",
    """
    NoLocations NoCandidateLocations LocationAssigned StableInstanceFound ProvisioningNetwork ProvisioningInstances
    AvailableDeploymentFound NoAvailableDeployments AvailablePlacementFound NoAvailablePlacements NetworkNotFound
    NoMatchingLocations Pending PendingProgramming ProgrammingInProgress Programmed Running Stopped Starting Stopping
    SchedulingGatesPresent NetworkFailedToCreate ImageUnavailable InstanceCrashing ConfigurationError SourceNotFound
    QuotaExhausted InsufficientCapacity Stalled NewRevision Scaling Complete AddressFamilyNotCarried DiskOnLostNode
    Scaled RolloutStarted RolloutComplete Scheduled Failed NetworkContextReady NetworkContextNotReady SubnetReady
    SubnetNotReady PrefixAllocated InstanceTypeDeprecated InstanceTypeDisabled
    SourceServiceNotFound NotGranted AddressNotClaimed ClaimNotFound FamilyMismatch HostNetworkPod NotAPod
    AmbiguousSource TargetNotAllowed TargetInsidePlatform InboundDenied InboundConflict NameConflict ClassNotFound
    NotAuthorized QuotaExceeded AddressInUse AddressNotInClass AddressReserved AddressQuarantined LocationNotInClass
    LocationMismatch AddressLost PoolExhausted NoGateway GatewayFull NoOutsideInterface AddressConflict RangeOverlap
    EncryptionUnavailable NodeHasNoDatapath ProgrammingFailed TooFewVoters NotSynced SourceIPIdsExhausted ClaimNotBound
    PortConflict PolicyMismatch NoPorts PoolNotFound NoPool NoPeer SessionDown SelfTestFailed TooManyPrefixes
    SpeakerMissing NoReadyInstance NoEndpoints Draining Withdrawn Announced PartlyAnnounced NotAnnounced
    WaitForFirstConsumer NoPods Programming OwnerChanging AddressBound GatewayOwns RulesInForce Redundant
    """,
)


@pytest.mark.parametrize("code", SPECIFIED)
def test_the_specified_codes_exist(code: str) -> None:
    """A specified code is in the catalogue under its own name."""
    assert reason(code).code == code


def test_every_constant_is_its_code() -> None:
    """QUOTA_EXHAUSTED is "QuotaExhausted", and every entry of the catalogue has a constant."""
    constants = {name: value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}
    assert set(constants.values()) == set(CATALOGUE)
    for name, value in constants.items():
        assert name.replace("_", "").lower() == value.lower()


def test_codes_and_sentences_are_well_formed() -> None:
    """Codes are CamelCase words; texts are one sentence and unique."""
    for entry in CATALOGUE.values():
        assert re.fullmatch(r"([A-Z][a-z]*)+", entry.code)
        assert entry.text[0].isupper()
        assert entry.text.endswith(".")
    assert len({entry.text for entry in CATALOGUE.values()}) == len(CATALOGUE)


def test_only_what_is_fine_has_no_priority() -> None:
    """An actionable reason is above zero; only transient ones have patience."""
    for entry in CATALOGUE.values():
        assert (entry.priority == 0) == (entry.actor is Actor.NONE)
        assert (entry.patience > 0) == (entry.actor is Actor.TRANSIENT)


def test_the_actionable_reason_outranks_the_vague_one() -> None:
    """A reason that a person can fix comes before work in progress."""
    order = ["NoAvailablePlacements", "ProvisioningInstances", "ProvisioningNetwork", "InsufficientCapacity"]
    order += ["QuotaExhausted", "InstanceCrashing", "NoMatchingLocations", "NetworkNotFound", "NetworkFailedToCreate"]
    ranks = [priority(code) for code in order]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)


def test_a_foreign_code_counts_as_a_failure() -> None:
    """Codes of providers are unknown to the catalogue."""
    assert priority("ServiceAccountFailedToCreate") == priority("Failed")


def test_the_reference_page_is_the_catalogue() -> None:
    """docs/reference/reasons.md has exactly one row for each reason, in order."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\d+) \| (.+) \|$", REFERENCE.read_text(), re.MULTILINE)
    expected = [
        (e.code, e.actor.value, str(e.priority), e.text) for e in sorted(CATALOGUE.values(), key=lambda e: e.code)
    ]
    assert rows == expected
