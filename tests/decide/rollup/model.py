"""The status of a group of deployments, computed from all of them: the model of the incremental roll-up.

It walks over every deployment for every part of the status, which is simple and grows with their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tarmac.api.compute.workload import Counters
from tarmac.decide import reasons
from tarmac.decide.rollup import DeploymentView
from tarmac.decide.rollup.conditions import is_specific

Deployments = Mapping[str, DeploymentView]
Said = tuple[str, str, str]  # status, reason and message of a condition


def in_order(deployments: Deployments) -> list[DeploymentView]:
    """Return the deployments by name."""
    return [deployments[name] for name in sorted(deployments)]


def counters(views: Sequence[DeploymentView]) -> list[int]:
    """Return the sums."""
    return [sum(getattr(each.counters, name) for each in views) for name in Counters.__struct_fields__]


def locations(views: Sequence[DeploymentView]) -> list[str]:
    """Return the Locations of deployments that are not being deleted."""
    return sorted({each.location for each in views if each.location and not each.deleting})


def available(views: Sequence[DeploymentView]) -> Said:
    """True when one is available; else with the most actionable reason."""
    said = [each.available for each in views if each.available is not None and not each.deleting]
    if any(each.status == "True" for each in said):
        return "True", reasons.AVAILABLE_DEPLOYMENT_FOUND, "At least one available deployment was found"
    generic = (reasons.NO_AVAILABLE_DEPLOYMENTS, "No available deployments were found for the placement")
    told = [generic, *((each.reason, each.message) for each in said)]
    reason, message = max(told, key=lambda each: reasons.priority(each[0]))
    return "False", reason, message


def progressing(views: Sequence[DeploymentView]) -> Said:
    """Refused when one is, then rolling, then scaling, and complete when all are."""
    staying = [each for each in views if not each.deleting]
    said = [each.progressing for each in staying]
    refused = [each for each in said if each is not None and each.status == "False"]
    if refused:
        top = max(refused, key=lambda each: reasons.priority(each.reason)).reason
        return "False", top, "; ".join(each.message for each in refused if each.reason == top)
    late = list(dict.fromkeys(each.city for each in staying if each.outdated))
    later = f"; {', '.join(late)} {'has' if len(late) == 1 else 'have'} it later" if late else ""
    for reason, words in ((reasons.NEW_REVISION, "The newest revision rolls out"), (reasons.SCALING, "Scaling")):
        cities = [each.city for each in staying if each.progressing and each.progressing.reason == reason]
        if cities:
            return "True", reason, f"{words} in {', '.join(dict.fromkeys(cities))}{later}"
    for each in said:
        if each is not None and each.status == "Unknown":
            return "Unknown", each.reason, each.message
    if late:
        return "True", reasons.NEW_REVISION, f"The newest revision rolls out{later}"
    if not staying or None in said or len(staying) < len(views):
        return "True", reasons.SCALING, "Deployments are being made or removed"
    return "True", reasons.COMPLETE, "Every instance that is meant to run is ready"


def trouble(views: Sequence[DeploymentView]) -> str:
    """Return the most actionable reason below, unless it only says that work is in progress."""
    specific = [each.trouble for each in views if each.trouble and not each.deleting and is_specific(each.trouble)]
    return max(specific, key=reasons.priority, default="")


def ready_cities(views: Sequence[DeploymentView], wanted: Sequence[str]) -> str:
    """Count ready cities, of those that are wanted or have a deployment."""
    staying = [each for each in views if not each.deleting]
    ready = {each.city for each in staying if each.counters.ready_replicas}
    return f"{len(ready)}/{len({*wanted, *(each.city for each in staying)})}"
