"""Deletecollection: delete what a list with the same options would show, one object at a time, each by its own rules.

So `limit` bounds what goes, `continue` says where to begin, and preconditions are held against every single object.
"""

from __future__ import annotations

from contextlib import suppress

from tarmac.api.status import NotFound
from tarmac.http.messages import Request, Response
from tarmac.server.printing.negotiation import shape_of
from tarmac.server.storage.deleting import delete_options, remove
from tarmac.server.storage.listing import find, render
from tarmac.server.storage.options import WriteOptions, list_options
from tarmac.server.storage.resourcestorage import Call, ResourceStorage


async def delete_collection(served: ResourceStorage, request: Request) -> Response:
    """DELETE of a collection. Answers with the list of what was to be deleted."""
    selected = list_options(request, watch=False)
    options = delete_options(request)
    call = Call(served, request, WriteOptions(options.dry_run))
    namespace = call.info.namespace
    selection = served.select(selected.label_selector, selected.field_selector)
    waiting = served.store.fresh()
    if waiting is not None:
        await waiting
    pieces, prefix = served.services.pieces, f"{namespace}/" if namespace and served.resource.namespaced else ""
    found = await pieces.done(find(served, prefix, selection, selected))
    for entry in found.entries:
        with suppress(NotFound):  # somebody else was faster
            await remove(call, entry.name.rpartition("/")[2], entry.name, options)
    return await pieces.done(render(served, shape_of(request, of_list=True), found))
