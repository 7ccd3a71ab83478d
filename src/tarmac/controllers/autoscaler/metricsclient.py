"""Metrics of a running system: Prometheus over HTTP, and resource metrics of the API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.clock import parse_rfc3339
from tarmac.base.quantity import Quantity
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import POD_METRICS
from tarmac.client.transport import ClientRequest
from tarmac.controllers.metricsources import ExternalQuery, InstanceUsage, NoMetric

if TYPE_CHECKING:
    from tarmac.client.http import HttpTransport

ANSWER_SECONDS = 10.0


class _Sample(msgspec.Struct):
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: list[_Sample]


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""


_read = msgspec.json.Decoder(_Answer).decode


class ServedMetrics:
    """Queries each Prometheus through its own connection pool."""

    def __init__(self, client: Client) -> None:
        self._pods = client.resource(POD_METRICS)
        self._clock = client.clock
        self._transports: dict[str, HttpTransport] = {}

    async def external(self, question: ExternalQuery) -> Sequence[int]:
        """Run an instant query. Series without a finite number are left out. Raises NoMetric."""
        if not question.url:
            raise NoMetric(f"no Prometheus is named for Location {question.location}, nor with --metrics-url")
        transport = self._transports.get(question.url)
        if transport is None:
            transport = self._transports[question.url] = self._open(question.url)
        try:
            query = f"query={quote(question.query)}"
            # Without a timeout, one Prometheus that hangs would occupy the workers of all deployments.
            reply = await transport.request(ClientRequest("GET", "/api/v1/query", query, timeout=ANSWER_SECONDS))
        except ClientError as error:
            raise NoMetric(f"{question.url} does not answer: {error}") from error
        return _values(reply.body, question)

    async def usage(self, namespace: str, labels: str) -> Mapping[str, InstanceUsage]:
        """Return the usage that `kubectl top` shows, by pod. Raises NoMetric."""
        try:
            page = await self._pods.list(namespace, labels=labels)
        except (ApiError, ClientError) as error:
            raise NoMetric(f"the resource metrics API does not answer: {error}") from error
        return {pod["metadata"]["name"]: _usage(pod) for pod in page.items}

    def _open(self, url: str) -> HttpTransport:
        # The HTTP client is large and slow to import; most servers never query a Prometheus.
        from tarmac.client.http import HttpConfig, HttpTransport

        return HttpTransport(HttpConfig(url), self._clock)

    async def close(self) -> None:
        """Close every connection."""
        for transport in self._transports.values():
            await transport.close()


def _values(body: bytes, question: ExternalQuery) -> list[int]:
    try:
        answer = _read(body)
    except ValueError as error:  # also UnicodeDecodeError, which is no error of msgspec's own
        raise NoMetric(f"{question.url} answers something else than Prometheus does: {error}") from error
    if answer.data is None or answer.status != "success":
        raise NoMetric(f"{question.url} refuses {question.query}: {answer.error}")
    try:
        numbers = [float(sample.value[1]) for sample in answer.data.result]
    except ValueError as error:
        raise NoMetric(f"{question.url} answers something else than numbers: {error}") from error
    found = [round(number * 1000) for number in numbers if number - number == 0]  # neither NaN nor infinite
    if not found:
        raise NoMetric(f"{question.query} has no value at {question.url}")
    return found


def _usage(pod: JsonObject) -> InstanceUsage:
    amounts: dict[str, int] = {}
    for container in pod.get("containers") or ():
        for name, amount in (container.get("usage") or {}).items():
            amounts[name] = amounts.get(name, 0) + Quantity.parse(amount).milli()
    return InstanceUsage(amounts, parse_rfc3339(pod["timestamp"]) if pod.get("timestamp") else 0.0)
