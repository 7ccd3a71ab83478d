"""The five conditions of a terminating namespace, in the wording of Kubernetes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tarmac.api.schema import JsonObject

DISCOVERY = "NamespaceDeletionDiscoveryFailure"
PARSING = "NamespaceDeletionGroupVersionParsingFailure"
CONTENT = "NamespaceDeletionContentFailure"
REMAINING = "NamespaceContentRemaining"
FINALIZERS = "NamespaceFinalizersRemaining"

_FINE = {
    DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    PARSING: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    CONTENT: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


@dataclass(slots=True)
class NamespaceFindings:
    """The result of one pass over a namespace's content."""

    undiscovered: dict[str, str] = field(default_factory=dict[str, str])  # group version -> error
    failures: list[str] = field(default_factory=list[str])
    remaining: Counter[str] = field(default_factory=Counter[str])  # "resource.group" -> number of objects
    finalizers: Counter[str] = field(default_factory=Counter[str])

    @property
    def empty(self) -> bool:
        """True if everything was listed and nothing is left."""
        # Unlisted content counts as content: without the finalizer its objects would remain in no namespace for ever.
        return not (self.undiscovered or self.failures or self.remaining)


def conditions(findings: NamespaceFindings, known: list[JsonObject], now: str) -> list[JsonObject]:
    """Return all five conditions. A condition with an unchanged status keeps its transition time."""
    problems = _problems(findings)
    before = {each["type"]: each for each in known}
    result: list[JsonObject] = []
    for name, fine in _FINE.items():
        reason, message = problems.get(name, fine)
        status = "True" if name in problems else "False"
        old = before.get(name, {})
        changed = old.get("status") != status
        result.append(
            {
                "type": name,
                "status": status,
                "lastTransitionTime": now if changed else old["lastTransitionTime"],
                "reason": reason,
                "message": message,
            }
        )
    return result


def _problems(findings: NamespaceFindings) -> dict[str, tuple[str, str]]:
    problems: dict[str, tuple[str, str]] = {}
    if findings.undiscovered:
        groups = ", ".join(f"{group}: {why}" for group, why in sorted(findings.undiscovered.items()))
        count = len(findings.undiscovered)
        problems[DISCOVERY] = (
            "DiscoveryFailed",
            f"Discovery failed for some groups, {count} failing: unable to retrieve the complete list of "
            f"server APIs: {groups}",
        )
    if findings.failures:
        texts = ", ".join(sorted(findings.failures))
        problems[CONTENT] = (
            "ContentDeletionFailed",
            f"Failed to delete all resource types, {len(findings.failures)} remaining: {texts}",
        )
    if findings.remaining:
        texts = ", ".join(
            f"{name} has {count} resource instances" for name, count in sorted(findings.remaining.items())
        )
        problems[REMAINING] = ("SomeResourcesRemain", f"Some resources are remaining: {texts}")
    if findings.finalizers:
        texts = ", ".join(
            f"{name} in {count} resource instances" for name, count in sorted(findings.finalizers.items())
        )
        problems[FINALIZERS] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {texts}",
        )
    return problems
