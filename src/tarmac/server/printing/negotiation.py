"""Content negotiation: the representation of a response that a client accepts.

An Accept header is a list of media types; ours are JSON and YAML, each of them also `as` a Table or as metadata alone.
As in Kubernetes, the clause of the highest quality that the server supports wins, among equals the more specific one,
then the first. Clients send the same few headers, so results are cached by text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from tarmac.api.status import BadRequest, NotAcceptable
from tarmac.http.messages import Request

Form = Literal["object", "table", "metadata"]

_AVAILABLE = (
    "406: Not Acceptable\n\n"
    "Available representations: application/json, application/yaml, application/json;stream=watch"
)
_NO_SUCH_FORM = "only the following media types are accepted: application/json, application/yaml"
_JSON = frozenset({"application/json", "application/*", "*/*"})
_FORMS: dict[str, Form] = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
_BROWSERS = ("curl", "Wget", "Mozilla/5.0")


class AnswerShape(NamedTuple):
    """The representation of a response."""

    form: Form = "object"
    yaml: bool = False
    pretty: bool = False
    include_object: str = "Metadata"  # part of the object in a table row: None, Metadata or Object
    old: bool = False  # tables and metadata as v1beta1, which differs from v1 only in its name

    @property
    def plain(self) -> bool:
        """True if stored bytes can be sent unchanged."""
        return self.form == "object" and not self.yaml and not self.pretty


PLAIN = AnswerShape()
PRETTY = AnswerShape(pretty=True)


def named(body: bytes, shape: AnswerShape) -> bytes:
    """Replace the apiVersion of a rendered table or metadata if the client asked for the old one."""
    # Safe as a byte replacement: quotes inside strings are escaped, and no stored object is of this group.
    return body.replace(b'"apiVersion":"meta.k8s.io/v1"', b'"apiVersion":"meta.k8s.io/v1beta1"') if shape.old else body


def check_plain(request: Request) -> None:
    """Reject a client that accepts only a Table or metadata for a response that has neither. Raises NotAcceptable."""
    accept = request.headers.get("accept", "")
    if "as=" in accept and all("as=" in clause for clause in accept.split(",")):
        raise NotAcceptable(_NO_SUCH_FORM)


def shape_of(request: Request, *, of_list: bool = False) -> AnswerShape:
    """Return the representation that a request asks for. Raises NotAcceptable, BadRequest."""
    headers = request.headers
    accept = headers.get("accept", "")
    shape = PLAIN if accept in ("", "*/*", "application/json") else _negotiate(accept, of_list)
    if request.query:
        if shape.form == "table" and (include := request.param("includeObject")):
            if include not in ("None", "Metadata", "Object"):
                why = f"""includeObject: Invalid value: "{include}": must be 'Metadata', 'Object', 'None', or empty"""
                raise BadRequest(f"Unable to convert to Table as requested: {why}")
            shape = shape._replace(include_object=include)
        if "pretty" in request.query:
            return shape._replace(pretty=request.param("pretty") not in ("false", "0"))
    if headers.get("user-agent", "").startswith(_BROWSERS):
        return PRETTY if shape is PLAIN else shape._replace(pretty=True)
    return shape


@lru_cache(maxsize=512)
def _negotiate(accept: str, of_list: bool) -> AnswerShape:
    refusal = NotAcceptable(_AVAILABLE, details={})
    for media, values in sorted(map(_clause, accept.split(",")), key=_preference):
        if media not in _JSON and media != "application/yaml":
            continue
        form = _form(values, of_list)
        if form is not None:
            old = form != "object" and values["v"] == "v1beta1"
            shape = AnswerShape(form, yaml=media == "application/yaml", old=old)
            return PLAIN if shape == PLAIN else shape
        refusal = NotAcceptable(_NO_SUCH_FORM)
    raise refusal


def _clause(text: str) -> tuple[str, dict[str, str]]:
    media, *parameters = (part.strip() for part in text.split(";"))
    return media, dict(part.split("=", 1) for part in parameters if "=" in part)


def _preference(clause: tuple[str, dict[str, str]]) -> tuple[float, bool, bool]:
    media, values = clause
    try:
        quality = float(values.get("q", "1"))
    except ValueError:
        quality = 0
    return -quality, media.startswith("*/"), media.endswith("/*")


def _form(values: dict[str, str], of_list: bool) -> Form | None:
    kind = values.get("as")
    if kind is None:
        return "object"
    if values.get("g") != "meta.k8s.io" or values.get("v") not in ("v1", "v1beta1"):
        return None
    if kind.startswith("Partial") and kind.endswith("List") != of_list:
        return None
    return _FORMS.get(kind)
