"""Deletecollection: delete the objects that a list with the same options returns, one by one, each by its own rules.

So `limit` bounds the number of deleted objects, `continue` sets the start, and preconditions are checked for every
object.
"""

from __future__ import annotations

from contextlib import suppress

from tarmac.api.status import NotFound
from tarmac.http.messages import Request, Response
from tarmac.server.printing.negotiation import shape_of
from tarmac.server.storage.deleting import delete_options, remove
from tarmac.server.storage.listing import find, render
from tarmac.server.storage.options import WriteOptions, list_options
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall


async def delete_collection(storage: ResourceStorage, request: Request) -> Response:
    """DELETE of a collection. Responds with the list of the objects that were selected for deletion."""
    selected = list_options(request, watch=False)
    options = delete_options(request)
    call = WriteCall(storage, request, WriteOptions(options.dry_run))
    namespace = call.info.namespace
    selection = storage.select(selected.label_selector, selected.field_selector)
    waiting = storage.store.fresh()
    if waiting is not None:
        await waiting
    pieces, prefix = storage.services.runner, f"{namespace}/" if namespace and storage.resource.namespaced else ""
    found = await pieces.done(find(storage, prefix, selection, selected))
    # A kill in this loop leaves the remaining objects untouched; the client repeats the request, which finds only
    # those.
    for entry in found.entries:
        with suppress(NotFound):  # another request has deleted it already
            await remove(call, entry.name.rpartition("/")[2], entry.name, options)
    return await pieces.done(render(storage, shape_of(request, of_list=True), found))
