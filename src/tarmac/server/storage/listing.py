"""List: a consistent slice of one resource, in the wanted shape.

A plain list is a join of stored bytes; nothing is decoded. Answers that take work (selectors, tables, gzip) are kept
until the next change of the resource, bounded in age, because the version they carry is one a watch may be started
from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import NamedTuple

from tarmac.api.status import ApiError, BadRequest, Gone, Timeout
from tarmac.http.compression import accepts_gzip, gzip
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import finish
from tarmac.server.printing.metadata import partial_metadata_list
from tarmac.server.printing.negotiation import Shape, shape_of
from tarmac.server.storage.continuing import ExpiredToken, position, token
from tarmac.server.storage.encoding import decode_json, encode_json
from tarmac.server.storage.listcache import CachedAnswer, ListCache, size_of
from tarmac.server.storage.options import ListOptions, list_options, parse_revision
from tarmac.server.storage.selecting import Selection
from tarmac.server.storage.served import Served
from tarmac.store.interface import Compacted, Entry, FutureRevision, Page

GZIP_FROM = 128 << 10
_GZIP_INLINE = 512 << 10
_MAX_AGE = 30.0  # the version in an answer must stay one that a watch can be started from
_PIECE = 64  # items
_AGE_OF_AGES = 1.0  # tables show ages in seconds


class Slice(NamedTuple):
    """What a list found."""

    entries: Sequence[Entry]
    revision: int
    next_token: str
    remaining: int | None


class Query(NamedTuple):
    """One list request, resolved."""

    prefix: str
    selection: Selection
    options: ListOptions
    shape: Shape
    compressed: bool

    @property
    def whole(self) -> bool:
        """Whether it asks for everything as it is now: what an answer can be kept for."""
        options = self.options
        return not options.limit and not options.continue_token and options.resource_version in ("", "0")


def list_objects(served: Served, request: Request, cache: ListCache) -> Response | Awaitable[Response]:
    """GET of a collection."""
    query = _query(served, request)
    waiting = served.waiting(query.prefix, newest=query.options.resource_version != "0")
    if waiting is not None:
        return _list_fresh(waiting, served, query, cache)
    return _list_now(served, query, cache)


async def _list_fresh(waiting: Awaitable[None], served: Served, query: Query, cache: ListCache) -> Response:
    await waiting
    answer = _list_now(served, query, cache)
    return answer if isinstance(answer, Response) else await answer


def _query(served: Served, request: Request) -> Query:
    options = list_options(request, watch=False)
    if options.resource_version == "0" and not options.continue_token:  # whatever is at hand, and that is everything
        options = options._replace(limit=0)
    namespace = request.info.namespace
    return Query(
        f"{namespace}/" if namespace and served.resource.namespaced else "",
        served.select(options.label_selector, options.field_selector),
        options,
        shape_of(request, of_list=True),
        accepts_gzip(request.headers),
    )


def _list_now(served: Served, query: Query, cache: ListCache) -> Response | Awaitable[Response]:
    key = (served.resource.api_version, served.bucket, query.prefix, query.selection.key, query.shape, query.compressed)
    if query.whole:
        kept = cache.get(served.bucket, key)
        if kept is not None:
            return kept.response
    found = find(served, query.prefix, query.selection, query.options)
    response = render(served, query.shape, found)
    length = size_of(response.body)
    if query.compressed and length >= GZIP_FROM:
        if length > _GZIP_INLINE:
            return _compress_aside(response, lambda done: _keep(cache, served, key, query, found, done))
        response = _compress(response)
    return _keep(cache, served, key, query, found, response)


def _keep(
    cache: ListCache, served: Served, key: tuple[object, ...], query: Query, found: Slice, response: Response
) -> Response:
    if query.whole and (not query.selection.everything or query.shape.form != "object" or response.headers):
        age = _AGE_OF_AGES if query.shape.form == "table" else _MAX_AGE
        cache.put(served.source, served.bucket, key, CachedAnswer(response, found.revision, age))
    return response


def _compress(response: Response) -> Response:
    headers = [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
    return Response(response.status, gzip(response.body), response.content_type, headers)


async def _compress_aside(response: Response, then: Callable[[Response], Response]) -> Response:
    return then(await asyncio.get_running_loop().run_in_executor(None, _compress, response))


def find(served: Served, prefix: str, selection: Selection, options: ListOptions) -> Slice:
    """The entries a list is about. Raises Gone, Timeout (a version that is yet to come), BadRequest."""
    after, revision = _start(served, prefix, options)
    limit = options.limit if selection.everything else 0
    try:
        if selection.name is not None and prefix:
            return _find_one(served, prefix, selection, revision)
        page = served.source.list(served.bucket, prefix, after=after, limit=limit, revision=revision)
    except Compacted:
        if options.continue_token:
            raise ExpiredToken(after) from None
        raise Gone("The resourceVersion for the provided list is too old.") from None
    except FutureRevision as error:
        raise too_large(revision, error.current) from None
    return _slice(page, selection, options)


def _find_one(served: Served, prefix: str, selection: Selection, revision: int) -> Slice:
    name = f"{prefix}{selection.name}"
    if revision and revision != served.source.revision:
        page = served.source.list(served.bucket, name, limit=1, revision=revision)
        found = [entry for entry in page.entries if entry.name == name and selection.matches(entry)]
        return Slice(found, page.revision, "", None)
    entry = served.source.get(served.bucket, name)
    entries = [entry] if entry is not None and selection.matches(entry) else []
    return Slice(entries, served.source.revision, "", None)


def _start(served: Served, prefix: str, options: ListOptions) -> tuple[str, int]:
    """Where to begin and as of which revision (0: now)."""
    try:
        wanted = parse_revision(options.resource_version)
    except ValueError as error:
        raise BadRequest(f"invalid resource version: {error}") from None
    if options.continue_token:
        if wanted:
            raise BadRequest("specifying resource version is not allowed when using continue")
        return position(options.continue_token, prefix)
    if wanted > served.source.revision:
        raise too_large(wanted, served.source.revision)
    exact = options.resource_version_match == "Exact" or (options.limit and not options.resource_version_match)
    return "", wanted if exact else 0


def _slice(page: Page, selection: Selection, options: ListOptions) -> Slice:
    entries, limit = page.entries, options.limit
    if selection.everything:
        more = page.remaining
        next_token = token(entries[-1].name, page.revision) if limit and more else ""
        return Slice(entries, page.revision, next_token, more if next_token else None)
    matching = (entry for entry in entries if selection.matches(entry))
    taken = list(islice(matching, limit) if limit else matching)
    # What comes after a full page is not looked at: there may be more, and nobody knows how many.
    more = bool(limit) and len(taken) == limit and taken[-1] is not entries[-1]
    return Slice(taken, page.revision, token(taken[-1].name, page.revision) if more else "", None)


def too_large(wanted: int, current: int) -> ApiError:
    """A version that has not happened yet."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return Timeout(
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={"causes": causes, "retryAfterSeconds": 1},
        headers=[("Retry-After", "1")],
    )


def render(served: Served, shape: Shape, found: Slice) -> Response:
    """A list in the wanted shape."""
    metadata = _list_metadata(found, always_continue=not served.resource.native and shape.form == "object")
    body: bytes | list[bytes]
    if shape.form == "table":
        raws = (entry.raw for entry in found.entries)
        rows = served.printer.rows(raws, served.services.clock.now(), shape.include_object)
        body = served.printer.table(metadata, rows)
    elif shape.form == "metadata":
        body = partial_metadata_list(metadata, map(served.raw, found.entries))
    else:
        body = _join(served, metadata, found.entries)
    return finish(body, shape)


def _list_metadata(found: Slice, always_continue: bool) -> bytes:
    """Lists of custom resources, and so of our own kinds, say even that there is nothing to continue with."""
    if not found.next_token and always_continue:
        return b'{"continue":"","resourceVersion":"%d"}' % found.revision
    if not found.next_token:
        return b'{"resourceVersion":"%d"}' % found.revision
    metadata: dict[str, object] = {"resourceVersion": str(found.revision), "continue": found.next_token}
    if found.remaining is not None:
        metadata["remainingItemCount"] = found.remaining
    return encode_json(metadata)


def _join(served: Served, metadata: bytes, entries: Sequence[Entry]) -> list[bytes]:
    """The list in pieces: one of many megabytes would cost more in fresh memory than all the copying."""
    resource = served.resource
    kind, version = resource.list_kind.encode(), resource.api_version.encode()
    pieces = [b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":[' % (kind, version, metadata)]
    for start in range(0, len(entries), _PIECE):
        if start:
            pieces.append(b",")
        pieces.append(_items(served, entries[start : start + _PIECE]))
    pieces.append(b"]}")
    return pieces


def _items(served: Served, entries: Sequence[Entry]) -> bytes:
    raws = [entry.raw for entry in entries] if served.view is None else [served.raw(entry) for entry in entries]
    if not served.resource.native:
        return b",".join(raws)
    # Items of Kubernetes' own kinds say no kind: leave out the tail, all but its brace.
    tail, end = served.tail, -len(served.tail)
    return b"},".join([raw[:end] if raw.endswith(tail) else _open(raw) for raw in raws]) + b"}"


def _open(raw: bytes) -> bytes:
    """An object that another program stored, in whatever order, without its kind and its last brace."""
    obj = decode_json(raw)
    del obj["kind"], obj["apiVersion"]
    return encode_json(obj)[:-1]
