"""The templates of a Workload's revisions, from its controller's ControllerRevisions."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.names import LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import Workload
from tarmac.client.client import Client
from tarmac.client.targets.untyped import CONTROLLER_REVISIONS
from tarmac.decide.rollout import Revision, template_hash
from tarmac.decide.rollout.stored import is_packed, template_in, unpacked


async def templates_of(client: Client, workload: Workload, history: Sequence[Revision]) -> dict[int, InstanceTemplate]:
    """Return templates by revision number.

    A template that is stored nowhere any more is left out, except the current one.
    """
    own = workload.metadata
    selector = f"{LABEL_WORKLOAD_UID}={own.uid}"
    listed = (await client.resource(CONTROLLER_REVISIONS).list(own.namespace, labels=selector)).items
    kept = {each["metadata"]["name"]: each for each in listed}
    found: dict[int, InstanceTemplate] = {}
    for each in history:
        if each.template_hash == template_hash(workload.spec.template):
            template = workload.spec.template
        elif is_packed(each):
            template = unpacked(each)
        else:
            template = template_in(kept[each.template], own) if each.template in kept else None
        if template is not None:
            found[each.number] = template
    return found
