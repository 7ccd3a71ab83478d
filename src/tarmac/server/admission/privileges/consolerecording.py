"""ConsoleRecording: recorded users must not be able to turn off the recording of console sessions.

A Namespace's annotation turns recording off. Setting, changing or removing it requires the cluster-wide right `use` on
`consolerecordings`, in addition to the rights on the Namespace.
"""

from __future__ import annotations

from tarmac.api.compute.names import ANNOTATION_CONSOLE_RECORDING, GROUP
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.refusal import refuse
from tarmac.server.admission.rights import may_use
from tarmac.server.security.authorization.authorize import Authorizer

RECORDINGS = "consolerecordings"


class ConsoleRecording(AdmissionPlugin):
    """Checks writes of Namespaces."""

    name = "ConsoleRecording"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == "core/namespaces" and operation in ("CREATE", "UPDATE")

    def validate(self, attributes: Attributes) -> None:
        if _said(attributes.obj) == _said(attributes.old):
            return
        if not may_use(self._authorizer, attributes.user, f"{GROUP}/{RECORDINGS}", attributes.name):
            raise refuse(
                attributes,
                f"metadata.annotations[{ANNOTATION_CONSOLE_RECORDING}] says whether consoles are recorded: user "
                f'"{attributes.user.name}" needs the right "use" on the resource "{RECORDINGS}" in API group "{GROUP}" '
                "at the cluster scope to change it. Leave the annotation as it is, or ask an administrator",
            )


def _said(obj: JsonObject | None) -> str | None:
    annotations = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    return annotations.get(ANNOTATION_CONSOLE_RECORDING)
