"""Builds responses from entries and documents in the representation that a client asked for."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.schema import JsonObject
from tarmac.http.messages import Request, Response
from tarmac.server.encoding import encode_json
from tarmac.server.printing.metadata import partial_metadata
from tarmac.server.printing.negotiation import PLAIN, AnswerShape, named, shape_of
from tarmac.server.printing.table import TablePrinter
from tarmac.server.printing.texts import as_yaml, indented, is_convertible

Headers = list[tuple[str, str]]

_MAX_WARNINGS = 4096  # characters; clients limit the size of headers
_MAX_WARNING = 256


def warning_headers(warnings: Sequence[str]) -> Headers | None:
    """Return `Warning: 299 - "text"` for each distinct warning; kubectl prints them.

    If all together are too long, each is cut and only the first ones are sent.
    """
    if not warnings:
        return None
    texts = list(dict.fromkeys(warnings))
    if sum(map(len, texts)) > _MAX_WARNINGS:
        texts = [text[:_MAX_WARNING] for text in texts][: _MAX_WARNINGS // _MAX_WARNING]
    return [("Warning", f'299 - "{_quotable(text)}"') for text in texts]


def _quotable(text: str) -> str:
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text.replace("\\", "\\\\").replace('"', '\\"')


def document(request: Request, value: JsonObject, status: int = 200, warnings: Sequence[str] = ()) -> Response:
    """Return a document that is not stored: a Status, a review, discovery."""
    shape = shape_of(request)
    if shape.form != "object":
        shape = PLAIN
    return finish(encode_json(value), shape, status, warnings)


def object_answer(
    raw: bytes,
    revision: int,
    shape: AnswerShape,
    printer: TablePrinter,
    now: float,
    status: int,
    warnings: Sequence[str],
) -> Response:
    """Return one object in the requested representation."""
    if shape.form == "table":
        row = printer.row(raw, now, shape.include_object)
        raw = printer.table(b'{"resourceVersion":"%d"}' % revision, [row])
    elif shape.form == "metadata":
        raw = partial_metadata(raw)
    return finish(raw, shape, status, warnings)


def finish(body: bytes | list[bytes], shape: AnswerShape, status: int = 200, warnings: Sequence[str] = ()) -> Response:
    """Build the response from an encoded document, whole or in chunks."""
    headers = warning_headers(warnings)
    # A list comes in chunks; its apiVersion is completely in the first one.
    body = named(body, shape) if isinstance(body, bytes) else [named(body[0], shape), *body[1:]] if body else body
    if isinstance(body, list) and (shape.pretty or (shape.yaml and is_convertible(sum(map(len, body))))):
        body = b"".join(body)
    if isinstance(body, list):  # never joined: a list of a gigabyte would hold the loop for as long as its copy takes
        return Response(status, body, "application/yaml" if shape.yaml else "application/json", headers)
    if shape.yaml:
        return Response(status, as_yaml(body), "application/yaml", headers)
    return Response(status, indented(body) if shape.pretty else body, headers=headers)
