"""Stores the templates of a Workload's revisions in ControllerRevisions, and reads the one that cities roll back to.

They are read on demand, which is rare, and never from a cache that may be behind: a revision that seems missing is not
rolled back to. The garbage collector deletes them with their Workload.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.names import LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import Workload
from tarmac.api.status import AlreadyExists, Conflict, Forbidden, NotFound
from tarmac.client.client import Client
from tarmac.client.targets.untyped import CONTROLLER_REVISIONS
from tarmac.decide.rollout import Revision, fallback
from tarmac.decide.rollout.stored import controller_revision, is_packed, template_in, unpacked


class Revisions:
    """The ControllerRevisions of Workloads."""

    def __init__(self, client: Client, manager: str) -> None:
        self._revisions = client.resource(CONTROLLER_REVISIONS)
        self._manager = manager

    async def restorable(
        self, workload: Workload, history: Sequence[Revision]
    ) -> tuple[tuple[Revision, ...], InstanceTemplate | None]:
        """Return the history without unreadable fallback revisions, and the template of the first readable one.

        Once the newest revision is complete there is no rollback, and nothing is read.
        """
        found = tuple(history)
        while found[-1].completed is None and (back := fallback(found)) is not None:
            template = await self._read(workload, back)
            if template is not None:
                return found, template
            found = tuple(each for each in found if each is not back)
        return found, None

    async def keep(self, workload: Workload, history: Sequence[Revision]) -> tuple[Revision, ...]:
        """Store every template that is not stored yet: the newest, and those still packed in the status.

        A packed template that cannot be decoded is left out of the history.
        """
        kept = [await self._stored(workload, each, newest=each is history[-1]) for each in history]
        return tuple(each for each in kept if each is not None)

    async def prune(self, workload: Workload, history: Sequence[Revision]) -> None:
        """Delete templates that no revision of the history names. Call it only after the history is written."""
        own, named = workload.metadata, {each.template for each in history}
        found = await self._revisions.list(own.namespace, labels=f"{LABEL_WORKLOAD_UID}={own.uid}")
        for metadata in (each["metadata"] for each in found.items):
            if metadata["name"] not in named:
                try:
                    await self._revisions.delete(metadata["name"], own.namespace, uid=metadata["uid"])
                except (Conflict, NotFound):
                    continue  # already deleted

    async def _read(self, workload: Workload, revision: Revision) -> InstanceTemplate | None:
        own = workload.metadata
        if is_packed(revision):
            return unpacked(revision)
        if not revision.template:
            return None
        try:
            return template_in(await self._revisions.get(revision.template, own.namespace), own)
        except NotFound:
            return None

    async def _stored(self, workload: Workload, revision: Revision, *, newest: bool) -> Revision | None:
        if revision.template and not is_packed(revision):
            return revision
        template = workload.spec.template if newest else unpacked(revision)
        if template is None:
            return None
        made = controller_revision(workload.metadata, revision, template)
        try:
            await self._revisions.create(made, manager=self._manager)
        except AlreadyExists:
            pass  # by us, before the status could be written: the name is a hash of the content
        except (Forbidden, NotFound):
            return (
                # a quota, or a server without the kind: the status must not wait for it, and the next pass retries
                revision
            )
        return replace(revision, template=made["metadata"]["name"])
