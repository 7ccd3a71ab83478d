"""List: a consistent slice of one resource, in the requested representation.

A plain list joins stored bytes and decodes nothing. Data that selectors and tables need is derived once per object
version. Responses that still take work (selectors, tables, gzip) are cached until the resource changes, bounded in age,
because a client may start a watch from the version they carry.

A list is found and rendered cooperatively. It shows a single revision, however long that takes: the store's page is
taken at the beginning, and its entries are immutable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from tarmac.api.status import ApiError, BadRequest, Gone, Timeout
from tarmac.base.cooperative import CooperativeWork
from tarmac.http.compression import accepts_gzip, gzip
from tarmac.http.messages import Request, Response
from tarmac.server.encoding import decode_json, encode_json
from tarmac.server.printing.answers import finish
from tarmac.server.printing.metadata import partial_metadata_list_head
from tarmac.server.printing.negotiation import AnswerShape, shape_of
from tarmac.server.printing.texts import ListFrame, indented_frame, indented_item
from tarmac.server.storage.batches import batches
from tarmac.server.storage.continuetokens import ExpiredToken, position, token
from tarmac.server.storage.listcache import CachedAnswer, ListCache, size_of
from tarmac.server.storage.options import ListOptions, list_options, parse_revision
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.storage.selectors import EntrySelection
from tarmac.store.interface import Compacted, Entry, FutureRevision, Page

GZIP_FROM = 128 << 10
_GZIP_INLINE = 512 << 10
_MAX_AGE = 30.0  # the version in a response must stay one that a watch can start from
_MAX_AGE_OF_TABLES = 1.0  # tables show ages in seconds


class ListPage(NamedTuple):
    """The entries of a list and its position in the resource."""

    entries: Sequence[Entry]
    revision: int
    next_token: str
    remaining: int | None


class ListQuery(NamedTuple):
    """One list request, resolved."""

    prefix: str
    selection: EntrySelection
    options: ListOptions
    shape: AnswerShape
    compressed: bool

    @property
    def whole(self) -> bool:
        """True if it asks for all objects at the newest version; only such responses are cached."""
        options = self.options
        return not options.limit and not options.continue_token and options.resource_version in ("", "0")


def list_objects(storage: ResourceStorage, request: Request, cache: ListCache) -> Response | Awaitable[Response]:
    """GET of a collection."""
    query = _query(storage, request)
    waiting = storage.waiting(query.prefix, newest=query.options.resource_version != "0")
    if waiting is not None:
        return _list_fresh(waiting, storage, query, cache)
    return _list_now(storage, query, cache)


async def _list_fresh(
    waiting: Awaitable[None], storage: ResourceStorage, query: ListQuery, cache: ListCache
) -> Response:
    await waiting
    # Only now: a list read before the wait could lack a write that the client knows to have succeeded.
    answer = _list_now(storage, query, cache)
    return answer if isinstance(answer, Response) else await answer


def _query(storage: ResourceStorage, request: Request) -> ListQuery:
    options = list_options(request, watch=False)
    # client-go's reflector lists with version 0 and a limit, and kube-apiserver's watch cache ignores that limit.
    if options.resource_version == "0" and not options.continue_token:  # any version will do: one page
        options = options._replace(limit=0)
    namespace = request.info.namespace
    return ListQuery(
        f"{namespace}/" if namespace and storage.resource.namespaced else "",
        storage.select(options.label_selector, options.field_selector),
        options,
        shape_of(request, of_list=True),
        accepts_gzip(request.headers),
    )


def _list_now(storage: ResourceStorage, query: ListQuery, cache: ListCache) -> Response | Awaitable[Response]:
    key = (
        storage.resource.api_version,
        storage.bucket,
        query.prefix,
        query.selection.key,
        query.shape,
        query.compressed,
    )
    if query.whole:
        # Valid only while nothing in the bucket has changed: the cache drops it with the next event.
        kept = cache.get(storage.bucket, key)
        if kept is not None:
            return kept.response

    def complete(made: tuple[ListPage, Response]) -> Response | Awaitable[Response]:
        found, response = made
        length = size_of(response.body)
        if query.compressed and length >= GZIP_FROM:
            if length > _GZIP_INLINE:
                return _compress_aside(response, lambda done: _keep(cache, storage, key, query, found, done))
            response = _compress(response)
        return _keep(cache, storage, key, query, found, response)

    return storage.services.runner.run(_make(storage, query), complete)


def _make(storage: ResourceStorage, query: ListQuery) -> CooperativeWork[tuple[ListPage, Response]]:
    found = yield from find(storage, query.prefix, query.selection, query.options)
    return found, (yield from render(storage, query.shape, found))


def _keep(
    cache: ListCache,
    storage: ResourceStorage,
    key: tuple[object, ...],
    query: ListQuery,
    found: ListPage,
    response: Response,
) -> Response:
    if query.whole and (not query.selection.everything or query.shape.form != "object" or response.headers):
        age = _MAX_AGE_OF_TABLES if query.shape.form == "table" else _MAX_AGE
        cache.put(storage.source, storage.bucket, key, CachedAnswer(response, found.revision, age))
    return response


def _compress(response: Response) -> Response:
    headers = [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
    return Response(response.status, gzip(response.body), response.content_type, headers)


async def _compress_aside(response: Response, then: Callable[[Response], Response]) -> Response:
    # A cancellation leaves the thread compressing; its result is dropped, and the cache is not filled.
    return then(await asyncio.get_running_loop().run_in_executor(None, _compress, response))


def find(
    storage: ResourceStorage, prefix: str, selection: EntrySelection, options: ListOptions
) -> CooperativeWork[ListPage]:
    """Return the entries of a list. Raises Gone, Timeout (a version that is yet to come), BadRequest."""
    after, revision = _start(storage, prefix, options)
    # The store counts entries before selectors: with a limit there, a page could be empty and yet not be the last.
    limit = options.limit if selection.everything else 0
    try:
        if selection.name is not None and prefix:
            return _find_one(storage, prefix, selection, revision)
        # One call, so one revision: the rest runs in several turns over this page, whatever is written meanwhile.
        page = storage.source.list(storage.bucket, prefix, after=after, limit=limit, revision=revision)
    except Compacted:
        if options.continue_token:
            raise ExpiredToken(after) from None
        raise Gone("The resourceVersion for the provided list is too old.") from None
    except FutureRevision as error:
        raise too_large(revision, error.current) from None
    return (yield from _slice(page, selection, options))


def _find_one(storage: ResourceStorage, prefix: str, selection: EntrySelection, revision: int) -> ListPage:
    name = f"{prefix}{selection.name}"
    if revision and revision != storage.source.revision:
        # Longer names match this prefix too, but the name itself sorts first among them: one entry is enough.
        page = storage.source.list(storage.bucket, name, limit=1, revision=revision)
        found = [entry for entry in page.entries if entry.name == name and selection.matches(entry)]
        return ListPage(found, page.revision, "", None)
    entry = storage.source.get(storage.bucket, name)
    entries = [entry] if entry is not None and selection.matches(entry) else []
    return ListPage(entries, storage.source.revision, "", None)


def _start(storage: ResourceStorage, prefix: str, options: ListOptions) -> tuple[str, int]:
    """Return the key to start after and the revision to read (0: now)."""
    try:
        wanted = parse_revision(options.resource_version)
    except ValueError as error:
        raise BadRequest(f"invalid resource version: {error}") from None
    if options.continue_token:
        if wanted:
            raise BadRequest("specifying resource version is not allowed when using continue")
        # The token is the client's: `position` accepts no key outside the namespace that the request was authorized
        # for.
        return position(options.continue_token, prefix)
    if wanted > storage.source.revision:
        raise too_large(wanted, storage.source.revision)
    # A limit with a version and no match rule means exactly that version in Kubernetes, a version alone means at least
    # it.
    exact = options.resource_version_match == "Exact" or (options.limit and not options.resource_version_match)
    return "", wanted if exact else 0


def _slice(page: Page, selection: EntrySelection, options: ListOptions) -> CooperativeWork[ListPage]:
    entries, limit = page.entries, options.limit
    if selection.everything:
        more = page.remaining
        next_token = token(entries[-1].name, page.revision) if limit and more else ""
        return ListPage(entries, page.revision, next_token, more if next_token else None)
    taken: list[Entry] = []
    for batch in batches(entries):
        taken += [entry for entry in batch if selection.matches(entry)]
        if limit and len(taken) >= limit:
            del taken[limit:]
            break
        yield
    # Entries after a full page are not matched: there may be more, so the number of remaining items is unknown.
    more = bool(limit) and len(taken) == limit and taken[-1] is not entries[-1]
    return ListPage(taken, page.revision, token(taken[-1].name, page.revision) if more else "", None)


def too_large(wanted: int, current: int) -> ApiError:
    """Return the Timeout error for a revision that does not exist yet."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return Timeout(
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={"causes": causes, "retryAfterSeconds": 1},
        headers=[("Retry-After", "1")],
    )


def render(storage: ResourceStorage, shape: AnswerShape, found: ListPage) -> CooperativeWork[Response]:
    """Render a list as a list of byte chunks: joining many megabytes would cost a large allocation and a copy."""
    head = _head(storage, shape, found)
    if not found.entries:
        # Go encodes the nil slice of an empty PartialObjectMetadataList as null; clients that compare answers see the
        # difference.
        return finish(head + (b"null}" if shape.form == "metadata" else b"[]}"), shape)
    # One time for all rows: their ages agree, however many turns of the event loop the rendering takes.
    pretty, now = shape.pretty and not shape.yaml, storage.services.clock.now()
    frame = indented_frame(head) if pretty else ListFrame(b"%b[" % head, b",", b"]}")
    chunks = [frame.begin]
    for batch in batches(found.entries):
        if len(chunks) > 1:
            chunks.append(frame.between)
        if shape.form == "object" and not pretty:
            chunks.append(_items(storage, batch))
        else:
            texts = [_item(storage, shape, entry, now) for entry in batch]
            chunks.append(frame.between.join(map(indented_item, texts) if pretty else texts))
        yield
    chunks.append(frame.end)
    return finish(chunks, shape._replace(pretty=False))


def _head(storage: ResourceStorage, shape: AnswerShape, found: ListPage) -> bytes:
    """Return the bytes before the items."""
    resource = storage.resource
    metadata = _list_metadata(found, always_continue=not resource.native and shape.form == "object")
    if shape.form == "table":
        return storage.printer.head(metadata)
    if shape.form == "metadata":
        return partial_metadata_list_head(metadata)
    kind, version = resource.list_kind.encode(), resource.api_version.encode()
    return b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":' % (kind, version, metadata)


def _item(storage: ResourceStorage, shape: AnswerShape, entry: Entry, now: float) -> bytes:
    if shape.form == "table":
        return storage.row(entry, now, shape.include_object)
    return storage.metadata(entry) if shape.form == "metadata" else _items(storage, [entry])


def _list_metadata(found: ListPage, always_continue: bool) -> bytes:
    """Encode the list's metadata. Lists of custom resources, and so of our own kinds, have `continue` even if empty."""
    if not found.next_token and always_continue:
        return b'{"continue":"","resourceVersion":"%d"}' % found.revision
    if not found.next_token:
        return b'{"resourceVersion":"%d"}' % found.revision
    metadata: dict[str, object] = {"resourceVersion": str(found.revision), "continue": found.next_token}
    if found.remaining is not None:
        metadata["remainingItemCount"] = found.remaining
    return encode_json(metadata)


def _items(storage: ResourceStorage, entries: Sequence[Entry]) -> bytes:
    raws = [entry.raw for entry in entries] if storage.view is None else [storage.raw(entry) for entry in entries]
    if not storage.resource.native:
        return b",".join(raws)
    # Items of native kinds carry no kind and apiVersion: cut that tail off, except for its closing brace.
    tail, end = storage.tail, -len(storage.tail)
    return b"},".join([raw[:end] if raw.endswith(tail) else _open(raw) for raw in raws]) + b"}"


def _open(raw: bytes) -> bytes:
    """Re-encode an object stored by another program, in any key order, without kind, apiVersion and closing brace."""
    obj = decode_json(raw)
    del obj["kind"], obj["apiVersion"]
    return encode_json(obj)[:-1]
