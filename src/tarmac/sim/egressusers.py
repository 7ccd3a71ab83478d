"""A simulated user of external services: creates, shares and deletes claims and services with fixed addresses.

There are fewer addresses than requests, and an administrator sometimes forbids their use for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tarmac.api.egress.names import API_VERSION, LABEL_GATEWAY
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, ApiError, Conflict, NotFound
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.targets.typed import EXTERNAL_SERVICES, SOURCE_IP_CLAIMS, SOURCE_IP_CLASSES
from tarmac.client.targets.untyped import NODES, SERVICES
from tarmac.sim.users import NAMESPACE

CLASS = "outside"
TARGET = "203.0.113.9"
_FIRST, _ADDRESSES = 193, 4
_MAX_CLAIMS = 6  # maximum number of claims at once


class Partner:
    """The user. Call `begin`, `run` until cancelled, then `settle`."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        dice: Randomness,
        apps: Callable[[], Sequence[str]],
        on_event: Callable[[str], None] = lambda _what: None,
    ) -> None:
        self.refused: list[str] = []  # requests that the server should have accepted
        self._claims, self._classes = (
            client.resource(SOURCE_IP_CLAIMS.unread),
            client.resource(SOURCE_IP_CLASSES.unread),
        )
        self._external, self._services = client.resource(EXTERNAL_SERVICES.unread), client.resource(SERVICES)
        self._nodes = client.resource(NODES)
        self._clock, self._dice, self._apps, self._on_event = clock, dice, apps, on_event
        self._made = 0
        self._held: list[str] = []
        self._used: list[str] = []
        self._acts: list[Callable[[], Coroutine[Any, Any, str]]] = [
            self._claim, self._claim, self._claim, self._serve, self._serve, self._serve, self._let_go, self._end,
            self._forbid, self._allow,
        ]  # fmt: skip

    async def begin(self, gateways: Sequence[str]) -> None:
        """Create a class of few addresses, and label the nodes that carry them."""
        sharing = self._dice.choice(("Exclusive", "Namespace", "Class"))
        spec = {
            "ranges": [{"start": f"192.168.122.{_FIRST}", "end": f"192.168.122.{_FIRST + _ADDRESSES - 1}"}],
            "allowedNamespaces": {"names": [NAMESPACE]},
            "inbound": {"policy": self._dice.choice(("Deny", "FromTarget"))},
            "sharing": sharing,
            "holdDown": "30s",
        }
        await self._classes.create(_made("SourceIPClass", CLASS, spec, ""))
        for name in gateways:
            await self._nodes.patch(name, {"metadata": {"labels": {LABEL_GATEWAY: "true"}}})

    async def run(self) -> None:
        """Act at random intervals."""
        while True:
            act = self._dice.choice(self._acts)
            try:
                if what := await act():
                    self._on_event(what)
            except (NotFound, Conflict, AlreadyExists):
                pass  # the object has changed or gone meanwhile
            except ApiError as error:
                self.refused.append(f"{act.__name__}: {error}")
            await self._clock.sleep(self._dice.uniform(0.1, 30.0))

    async def settle(self) -> None:
        """Allow the class again."""
        await self._allow()

    async def _claim(self) -> str:
        if len(self._held) >= _MAX_CLAIMS:
            return ""
        self._made += 1
        name = f"claim{self._made}"
        asked = self._dice.choice((0, 0, 0, 1))
        spec: JsonObject = {"className": CLASS}
        if asked:
            spec["address"] = f"192.168.122.{_FIRST + int(self._dice.uniform(0, _ADDRESSES))}"
        await self._claims.create(_made("SourceIPClaim", name, spec))
        self._held.append(name)
        return f"claims {spec.get('address', 'an address')} as {name}"

    async def _serve(self) -> str:
        apps = self._apps()
        if not self._held or not apps:
            return ""
        self._made += 1
        name, app, claim = f"partner{self._made}", self._dice.choice(apps), self._dice.choice(self._held)
        service = {"selector": {"app": app}, "ports": [{"port": 80}]}
        metadata = {"name": name, "namespace": NAMESPACE}
        await self._services.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})
        sources = [{"service": {"name": name}, "sourceIPClaim": {"name": claim}}]
        spec = {"targetIP": TARGET, "sources": sources, "ports": [{"port": 5432, "targetPort": 8000}]}
        await self._external.create(_made("ExternalService", name, spec))
        self._used.append(name)
        return f"lets {app} reach {TARGET} as {name} under {claim}"

    async def _let_go(self) -> str:
        if not self._held:
            return ""
        name = self._held.pop(int(self._dice.uniform(0, len(self._held))))
        await self._claims.delete(name, NAMESPACE)
        return f"deletes {name}"

    async def _end(self) -> str:
        if not self._used:
            return ""
        name = self._used.pop(int(self._dice.uniform(0, len(self._used))))
        await self._external.delete(name, NAMESPACE)
        await self._services.delete(name, NAMESPACE)
        return f"deletes {name}"

    async def _forbid(self) -> str:
        await self._classes.patch(CLASS, {"spec": {"allowedNamespaces": {"names": []}}})
        return f"forbids {CLASS}"

    async def _allow(self) -> str:
        await self._classes.patch(CLASS, {"spec": {"allowedNamespaces": {"names": [NAMESPACE]}}})
        return f"allows {CLASS}"


def _made(kind: str, name: str, spec: JsonObject, namespace: str = NAMESPACE) -> JsonObject:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
