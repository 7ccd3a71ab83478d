"""The differences that are allowed, each with its reason. All other ones fail, and so does an unused entry.

`case` and `where` are regular expressions over the whole id of a case and the whole place of a difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Allowed:
    """A kind of difference that is intended."""

    reason: str
    case: str
    where: str

    def covers(self, case: str, where: str) -> bool:
        """Return true if this entry matches that difference."""
        return bool(re.fullmatch(self.case, case) and re.fullmatch(self.where, where))


# Subresources that Kubernetes does not have, such as explanations of a state and previews of a change.
SUBRESOURCES_OF_OUR_OWN = frozenset(
    {"why", "plan", "history", "connections", "console", "ledger", "power", "recordings", "vnc"}
)

_ANY = ".*"
_TOLD = r"\d+/body\.(message|details\.causes.*)"

ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        "networkInterfaces are keyed by a name that may be left out; a CRD cannot say so and owns the list as a whole",
        _ANY,
        r".*f:spec\.f:template\.f:spec\.f:networkInterfaces\..*",
    ),
    Allowed(
        "our validation catalogue has its own words and order of checks for what a CRD refuses by its schema",
        "create: a workload without placements|JSON bodies: a workload with wrong types|scale: below nothing",
        _TOLD,
    ),
    Allowed(
        "we say where malformed JSON ends, and count the lines of YAML to where it breaks",
        "JSON bodies: followed by more|JSON patch: something that is no json|YAML bodies: an open bracket",
        _TOLD,
    ),
    Allowed(
        "we answer in JSON and YAML, not in protobuf, and say so",
        "errors: an answer nobody writes|get: in a form nobody knows|Table: of a version nobody knows"
        "|PartialObjectMetadata: of a kind nobody knows|watch: in yaml|details: a (review|token) as a table",
        r"\d+/body\.message",
    ),
    Allowed(
        "the real server names its Go types",
        "PartialObjectMetadata: (a list asked for as one|one asked for as a list)",
        r"\d+/body\.message",
    ),
    Allowed(
        "the real server appends a diff of Go structs; ours names the fields that changed",
        "update: what a pod may not change",
        _TOLD,
    ),
    Allowed(
        "our server counts quotas itself; the real one leaves that to a controller, which does not run here",
        "(server-side apply|Table): of a resourcequota",
        r"2/body\.(status\.(hard|used)|rows\[0\]\.(cells\[1\]|object\.metadata\.resourceVersion))",
    ),
    Allowed(
        "a Pod that names no RuntimeClass gets the sandbox with its own kernel",
        _ANY,
        r".*spec\.runtimeClassName",
    ),
    Allowed("the real server checks this twice and says so twice", "events: the reason cannot change", _TOLD),
    Allowed(
        "the real server quotes a whole template as its internal Go type",
        "pod controllers: a job whose template changes",
        r"2/body\.(message|details\.causes.*)",
    ),
    Allowed(
        "the real server counts templates of a DaemonSet only in what it converts for clients",
        "pod controllers: a daemon set|recorded: DaemonSet: as a table",
        r"[23]/body\.rows\[0\]\.object\.metadata\.annotations",
    ),
    Allowed("the real server checks this twice", "pod controllers: an autoscaler of an unknown metric", _TOLD),
    Allowed(
        "nothing runs these kinds in this process, and a warning says so",
        "(pod controllers|recorded|autoscalers of version 1): .*",
        "1/warnings",
    ),
    Allowed(
        "an update through one version of a kind keeps no owners of fields that only the other version has",
        "autoscalers of version 1: other metrics are annotations",
        r"[34]/body.metadata.managedFields",
    ),
    Allowed(
        "the generation of a CSIDriver counts its changes; nothing here reads it",
        "volume drivers: a driver",
        r"[36]/body.metadata.generation",
    ),
    Allowed(
        "no controller would remove the finalizer of a class of volumes: nodes run no drivers, so no volume uses one",
        "volume drivers: attributes",
        r"\d+/body\..*(finalizers|deletionTimestamp|deletionGracePeriodSeconds)",
    ),
    Allowed("Go's words for what is wrong inside a token", "limit and continue: a token nobody gave", _TOLD),
    Allowed(
        "the real server forgets the time when it moves ownership between a Scale and its object",
        "scale: .*|pod controllers: a deployment scaled|recorded: Deployment: scale and status",
        r".*managedFields\[1\]\.time",
    ),
    Allowed(
        "the row of a bookmark is empty, not made of the texts for missing values",
        "(bookmarks|sendInitialEvents): (in|as) a table",
        r".*\.object\.rows\[0\]\.cells.*",
    ),
    Allowed(
        "the real server describes these columns in the words of an older version of the kind",
        "Table: of a (rolebinding|clusterrolebinding|endpointslice)"
        "|(pod controllers|recorded|network policies|autoscalers of version 1): .*",
        r".*columnDefinitions\[\d+\]\.description",
    ),
    Allowed(
        "our own kinds describe their own columns",
        "Table: .*workloads?|scale: as a table",
        r".*columnDefinitions\[[03]\]\.description",
    ),
    Allowed(
        "a watch from a version that never was is told to list again: it is of a store that this one has replaced, "
        "and the real server would leave out in silence what happens up to that number",
        "watch: from a version of the future",
        r"\d+/events.*",
    ),
    Allowed("ours writes parameters where they are used, not as references", "OpenAPI: v2 is a document", "1/body"),
    Allowed(
        "the real server leaves the media type of its index to be guessed, and of what is not there to nobody",
        "OpenAPI: v3 of (groups|a group nobody serves)",
        r"1/(type|body)",
    ),
)
