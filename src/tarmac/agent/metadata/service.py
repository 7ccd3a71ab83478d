"""The rules of the metadata service, independent of the transport.

    PUT /v1/token                       X-Tarmac-Metadata-Token-TTL-Seconds: 1 to 21600
    GET /v1/instance                    all of the following but the last, as JSON
    GET /v1/instance/<one of them>      text, or JSON for structured values
    GET /v1/instance/identity?audience=WHO

Requests with proxy headers are refused. The identity is a signed token that names the pod. It is for third parties, so
one that Tarmac's own API server would accept is not issued.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from tarmac.agent.metadata.egressmetadata import EgressFacts
from tarmac.agent.metadata.metadatatokens import MAX_TTL, MetadataTokens
from tarmac.api.compute.names import API_VERSION, LABEL_CITY_CODE, LABEL_WORKLOAD_NAME
from tarmac.api.networking.interfaces import AttachedInterface, decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden
from tarmac.http.messages import Request, Response
from tarmac.volumes.interface import SourceUnavailable

TTL_HEADER: Final = "X-Tarmac-Metadata-Token-TTL-Seconds"
TOKEN_HEADER: Final = "X-Tarmac-Metadata-Token"
IDENTITY_SECONDS: Final = 3600
MAX_AUDIENCES: Final = 8  # per pod: each is a token that the server must sign and the agent must store
MAX_PODS: Final = 1000  # with remembered audiences
_FORWARDED: Final = ("x-forwarded-for", "forwarded", "via")
_OUR_SERVER: Final = ("https://kubernetes.default.svc", "kubernetes.default.svc")
_INSTANCE: Final = "/v1/instance"

Identify = Callable[[JsonObject, str, int], Awaitable[tuple[str, float]]]
"""identify(pod, audience, seconds) returns a token and its expiry. Raises SourceUnavailable."""

EgressOf = Callable[[str], EgressFacts]
"""Returns the egress metadata of a pod by uid."""


class MetadataService:
    """Serves requests of pods to the metadata address; limits the audiences per pod."""

    def __init__(self, tokens: MetadataTokens, identify: Identify, city: str, egress_of: EgressOf) -> None:
        self._tokens = tokens
        self._identify = identify
        self._city = city
        self._egress_of = egress_of
        self._audiences: dict[str, set[str]] = {}  # by pod, the most recent last

    async def answer(self, request: Request, pod: JsonObject | None) -> Response:
        """Return the response; `pod` is the client, None if unknown."""
        if any(header in request.headers for header in _FORWARDED):
            return _text(403, "requests on behalf of others are not answered")
        if pod is None:
            return _text(404, "no pod is known at this link")
        if request.path == "/v1/token":
            return self._token(request, pod)
        if request.path != _INSTANCE and not request.path.startswith(f"{_INSTANCE}/"):
            return _text(404, "there is /v1/token and /v1/instance")
        if request.method not in ("GET", "HEAD"):
            return _text(405, "only GET", ("Allow", "GET"))
        if not self._tokens.is_good(request.headers.get(TOKEN_HEADER.lower(), ""), pod["metadata"]["uid"]):
            return _text(401, f"a token is needed: PUT /v1/token, then {TOKEN_HEADER}")
        return await self._about(request, pod)

    def _token(self, request: Request, pod: JsonObject) -> Response:
        if request.method != "PUT":
            return _text(405, "only PUT", ("Allow", "PUT"))
        asked = request.headers.get(TTL_HEADER.lower(), "")
        if not (asked.isascii() and asked.isdigit() and len(asked) < 6 and 1 <= int(asked) <= MAX_TTL):
            return _text(400, f"{TTL_HEADER} must be from 1 to {MAX_TTL}")
        return _text(200, self._tokens.give(pod["metadata"]["uid"], int(asked)), (TTL_HEADER, asked))

    async def _about(self, request: Request, pod: JsonObject) -> Response:
        name = request.path.removeprefix(_INSTANCE).strip("/")
        if name == "identity":
            return await self._identity(request, pod)
        facts = facts_of(pod, self._city, self._egress_of(pod["metadata"]["uid"]))
        if not name:
            return _json(facts)
        if name not in facts:
            return _text(404, f"there is {', '.join(facts)} and identity")
        found = facts[name]
        return _text(200, found) if isinstance(found, str) else _json(found)

    async def _identity(self, request: Request, pod: JsonObject) -> Response:
        audience = request.param("audience")
        if not audience or len(audience) > 256:
            return _text(400, "say who is to check it: ?audience=WHO")
        if audience.startswith(_OUR_SERVER):
            return _text(403, "an identity for the API server itself is not given")
        known = self._known_audiences(pod["metadata"]["uid"])
        is_new = audience not in known
        if is_new and len(known) >= MAX_AUDIENCES:
            return _text(429, f"not for more than {MAX_AUDIENCES} audiences")
        # Before the call: requests that wait for it at the same time count against the limit too.
        known.add(audience)
        granted = False
        try:
            token, _ = await self._identify(pod, audience, IDENTITY_SECONDS)
            granted = True
        except SourceUnavailable as error:
            return _text(403 if isinstance(error.__cause__, Forbidden) else 503, str(error))
        finally:
            # Also for a cancelled call: an audience without a token takes no place.
            if is_new and not granted:
                known.discard(audience)
        return _text(200, token)

    def _known_audiences(self, pod_uid: str) -> set[str]:
        # Moved to the end: the pod that asked the longest ago is forgotten first.
        known = self._audiences[pod_uid] = self._audiences.pop(pod_uid, set())
        if len(self._audiences) > MAX_PODS:
            del self._audiences[next(iter(self._audiences))]
        return known


def _text(status: int, text: str, *headers: tuple[str, str]) -> Response:
    return Response(status, text.encode(), "text/plain; charset=utf-8", [("Cache-Control", "no-store"), *headers])


def _json(found: Any) -> Response:
    return Response(200, msgspec.json.encode(found), "application/json", [("Cache-Control", "no-store")])


# Metadata of an instance, read from its Pod and from the node's egress rules.
#
# A plain Pod gets the same fields, as far as they apply.


def facts_of(pod: JsonObject, city: str, egress: EgressFacts) -> Mapping[str, Any]:
    """Return the metadata by field. `city` is the node's, for pods without one."""
    metadata = pod["metadata"]
    labels: dict[str, str] = metadata.get("labels") or {}
    return {
        "id": _identity(metadata),
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "workload": labels.get(LABEL_WORKLOAD_NAME, ""),
        "labels": labels,
        "addresses": _addresses((metadata.get("annotations") or {}).get(ANNOTATION_INTERFACES, "")),
        "city": labels.get(LABEL_CITY_CODE) or city,
        "egress": egress,
    }


def _identity(metadata: JsonObject) -> str:
    """Return the Instance's uid, which is stable over its Pods; a plain Pod's own uid."""
    owners = (each for each in metadata.get("ownerReferences") or () if each.get("controller"))
    instance = next((each for each in owners if (each["apiVersion"], each["kind"]) == (API_VERSION, "Instance")), None)
    return instance["uid"] if instance else metadata["uid"]


def _addresses(text: str) -> list[dict[str, str]]:
    try:
        interfaces = decode_interfaces(text) if text else []
    except msgspec.MsgspecError:
        return []
    return [each for interface in interfaces for each in _of(interface)]


def _of(interface: AttachedInterface) -> list[dict[str, str]]:
    return [
        {"interface": interface.name, "network": interface.network, "address": address, "mac": interface.mac}
        for address in interface.addresses
    ]
