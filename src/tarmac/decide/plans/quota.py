"""Checks that quotas have room for planned Instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tarmac.api.compute.names import instance_name
from tarmac.api.shared import ResourceList
from tarmac.decide.derived.qosclasses import template_places
from tarmac.decide.plans.difference import Difference
from tarmac.decide.quota import Admission, Claim
from tarmac.decide.snapshot.quotas import charged_at, ledger_of
from tarmac.decide.snapshot.snapshot import Snapshot

Wish = tuple[Difference, ResourceList]
"""A deployment, and the resources of each of its Instances."""


def grant(
    snapshot: Snapshot, namespace: str, wishes: Sequence[Wish]
) -> list[tuple[Difference, ResourceList, list[int]]]:
    """Return the ordinals of each deployment that quotas leave room for; record a refusal for the remaining ones."""
    going = {view.name for found, _ in wishes for view in found.going}
    wanted = {_name(found, ordinal) for found, _ in wishes for ordinal in found.wanted}
    ledger = ledger_of(snapshot, namespace, going | wanted)
    if ledger is None:
        return [(found, amounts, found.wanted) for found, amounts in wishes]
    claims = [
        Claim(
            _name(found, ordinal),
            _charged(snapshot, found, amounts),
            snapshot.now,
            ordinal,
            found.city,
            template_places(found.deployment.spec.template),
        )
        for found, amounts in wishes
        for ordinal in found.wanted
    ]
    admission = ledger.admit(claims)
    change = ledger.raised_for(admission.refused, claims)
    return [(found, amounts, _granted(found, admission, change)) for found, amounts in wishes]


def _charged(snapshot: Snapshot, found: Difference, amounts: ResourceList) -> ResourceList:
    template = found.deployment.spec.template
    return charged_at(snapshot, template.spec.runtime, template.metadata, amounts)


def _granted(found: Difference, admission: Admission, change: str) -> list[int]:
    refused = [ordinal for ordinal in found.wanted if _name(found, ordinal) in admission.refused]
    if refused:
        found.refuse(replace(admission.refused[_name(found, refused[0])], change=change), len(refused))
    return [ordinal for ordinal in found.wanted if ordinal not in refused]


def _name(found: Difference, ordinal: int) -> str:
    return instance_name(found.deployment.metadata.name, ordinal)
