"""The paths of the node's API, as kubelets serve them, with their handlers.

    /containerLogs/NS/POD/CONTAINER            /pods  /runningpods/
    /exec|attach|run/NS/POD[/UID]/CONTAINER    /stats/summary
    /portForward/NS/POD[/UID]                  /metrics  /metrics/resource
    /tarmac/v1/dial/NS/POD/UID/PORT            /healthz  /configz
    /tarmac/v1/console|vnc|power|recordings/NS/POD/UID   see `machines.api`
    /tarmac/v1/external/connections/NS/NAME    live connections of an ExternalService
    /tarmac/v1/ingress/check/ADDRESS/PORT      a connection of this node to a public address

`handle` serves untrusted clients; a `RequestAuthorizer` authenticates and authorizes them. `answer` serves the trusted
requests of the API server, which come through a tunnel and name the user. Opening a stream is authorized as `create`,
regardless of the method.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from tarmac.agent.http import execstreams, podports
from tarmac.agent.http.apidependencies import Connect, NodeMetrics, Pods
from tarmac.agent.http.auth import RequestAuthorizer
from tarmac.agent.http.idle import until_idle
from tarmac.agent.http.kubeletanswers import METRICS, HttpError, document, refusal, text
from tarmac.agent.http.logs.logreader import LogReader
from tarmac.agent.http.logs.options import LogOptions
from tarmac.agent.http.machines.api import PLACES, ConsoleServices, MachineApi, is_machine
from tarmac.agent.http.machines.sessions import visitor_headers
from tarmac.agent.http.openstreams import OpenStreams
from tarmac.agent.http.resourcemetrics import resource_metrics
from tarmac.api.egress.connections import NodeConnections
from tarmac.api.ingress.nodechecks import NodeIngressCheck
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.digits import port_number
from tarmac.http.messages import Answer, Request, Response
from tarmac.http.streams import stream_of
from tarmac.runtimes.interface import (
    NotOffered,
    Runtime,
    RuntimeFault,
    RuntimeObjectNotFound,
    RuntimeUnreachable,
    StreamOptions,
    TooManyStreams,
    WrongState,
)

ExternalConnections = Callable[[str, str], Awaitable[NodeConnections]]
IngressCheck = Callable[[str, int], Awaitable[NodeIngressCheck | None]]
"""Returns the connections of an ExternalService known to this node, by namespace and name."""

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_CODES = ((RuntimeObjectNotFound, 404), (RuntimeUnreachable, 503))
_REFUSALS = ((NotOffered, 400), (WrongState, 409), (TooManyStreams, 429))
_RUN_TIMEOUT = 50.0  # below the timeout of a request


class NodeApi:
    """Serves requests about this node."""

    def __init__(
        self,
        *,
        pods: Pods,
        runtime: Runtime,
        connect: Connect,
        node_metrics: NodeMetrics,
        authorizer: RequestAuthorizer,
        clock: Clock,
        consoles: ConsoleServices,
        config: Callable[[], JsonObject] = dict,
        external: ExternalConnections | None = None,
        ingress: IngressCheck | None = None,
        idle_seconds: float = 4 * 3600.0,
    ) -> None:
        self._pods = pods
        self._runtime = runtime
        self._connect = connect
        self._node_metrics = node_metrics
        self._authorizer = authorizer
        self._clock = clock
        self._config = config
        self._external, self._ingress = external, ingress
        self._idle_seconds = idle_seconds
        self._streams = OpenStreams(authorizer, clock)
        self._machines = MachineApi(runtime, self._machine, consoles)
        self._routes: dict[str, Callable[[Request, list[str]], Awaitable[Answer]]] = {
            "containerLogs": self._logs,
            "exec": self._exec,
            "attach": self._attach,
            "run": self._run,
            "portForward": self._port_forward,
            "tarmac": self._own,
            "pods": self._all_pods,
            "runningpods": self._running_pods,
            "stats": self._stats,
            "metrics": self._metrics,
            "healthz": self._healthz,
            "configz": self._configz,
        }

    async def handle(self, request: Request) -> Answer:
        """Authenticate, authorize and serve a request."""
        try:
            name = await self._authorizer.admit(request)
        except HttpError as error:
            return text(error.status, str(error))
        # The client is authenticated: its own claims about its identity or about recording are removed.
        request.headers = visitor_headers(request.headers, name)
        return self._streams.watch(request, await self.answer(request))

    async def close(self) -> None:
        """End the streams of clients."""
        await self._streams.close()

    async def answer(self, request: Request) -> Answer:
        """Serve a request that is already authorized."""
        first, *rest = request.path.strip("/").split("/")
        try:
            return until_idle(await self._routes.get(first, _unknown)(request, rest), self._idle_seconds)
        except HttpError as error:
            return text(error.status, str(error))
        except (NotOffered, WrongState, TooManyStreams) as fault:
            return refusal(next(code for kind, code in _REFUSALS if isinstance(fault, kind)), str(fault))
        except RuntimeFault as fault:
            return text(next((code for kind, code in _CODES if isinstance(fault, kind)), 500), str(fault))

    # Streams

    async def _logs(self, request: Request, rest: list[str]) -> Answer:
        _only_get(request)
        if len(rest) != 3:
            raise HttpError(404, "404 page not found")
        try:
            options = LogOptions.read(request.params(), self._clock.now())
        except ValueError as error:
            raise HttpError(422, str(error)) from error
        namespace, name, container = rest
        pod = self._pods.find(namespace, name)
        if pod is None:
            raise HttpError(404, f'pod "{name}" does not exist')
        if all(each["name"] != container for each in _containers(pod)):
            raise HttpError(404, f'container "{container}" not found in pod "{name}"')
        path = self._pods.log_path(pod, container, options.previous)
        if path is None:
            raise HttpError(400, _no_log(pod, container, options.previous))
        # Of the same attempt as the path: a restart in between must not make the reader follow the wrong container.
        identity = self._pods.container_id(pod, container, options.previous)
        reader = LogReader(path, options, lambda: self._is_running(identity), self._clock)
        try:
            chunks = await reader.open()
        except OSError as error:
            raise HttpError(500, f"the log cannot be read: {error.strerror}") from error
        return stream_of(chunks, content_type="text/plain", abandon=reader.close)

    async def _is_running(self, identity: str | None) -> bool:
        if identity is None:
            return False
        try:
            return (await self._runtime.container(identity)).state in ("created", "running")
        except RuntimeObjectNotFound:
            return False
        except RuntimeFault:  # containers keep running while their runtime is down
            return True

    async def _exec(self, request: Request, rest: list[str]) -> Answer:
        options = execstreams.read_options(request.params())
        command = request.params().get("command")
        if not command:
            raise HttpError(400, "you must specify at least 1 command")
        _, identity, _ = self._container(rest)
        return await execstreams.stream(request, lambda: self._runtime.exec_stream(identity, command, options), options)

    async def _attach(self, request: Request, rest: list[str]) -> Answer:
        asked = execstreams.read_options(request.params())
        pod, identity, name = self._container(rest)
        spec = next(each for each in _containers(pod) if each["name"] == name)
        # The terminal of a running process is fixed by its spec.
        tty = bool(spec.get("tty"))
        options = StreamOptions(asked.stdin, asked.stdout, asked.stderr and not tty, tty)
        if is_machine(pod):
            return await self._machines.attach(request, pod, identity, options)
        return await execstreams.stream(request, lambda: self._runtime.attach_stream(identity, options), options)

    async def _run(self, request: Request, rest: list[str]) -> Answer:
        if request.method != "POST":
            raise HttpError(405, "405: Method Not Allowed")
        _, identity, _ = self._container(rest)
        try:
            # As kubelet: split at blanks, without a shell and without quotes.
            result = await self._runtime.exec(identity, request.param("cmd").split(" "), _RUN_TIMEOUT)
        except TimeoutError as error:
            raise HttpError(500, f"the command did not end in {_RUN_TIMEOUT:.0f} s") from error
        if result.exit_code:
            raise HttpError(500, f"command terminated with exit code {result.exit_code}")
        return Response(200, result.stdout + result.stderr)

    async def _port_forward(self, request: Request, rest: list[str]) -> Answer:
        return podports.forward(request, self._dialler(self._pod(*rest)))

    async def _own(self, request: Request, rest: list[str]) -> Answer:
        """Serve the paths that kubelets do not have."""
        version, place, *about = rest if len(rest) > 1 else ("", "")
        if version == "v1" and place == "dial":
            return await self._dial(request, about)
        if version == "v1" and place in PLACES:
            return await self._machines.answer(place, request, about)
        if version == "v1" and [place, *about[:1]] == ["external", "connections"] and len(about) == 3:
            return await self._external_connections(request, *about[1:])
        if version == "v1" and [place, *about[:1]] == ["ingress", "check"] and len(about) == 3:
            return await self._ingress_check(request, *about[1:])
        raise HttpError(404, "404 page not found")

    async def _external_connections(self, request: Request, namespace: str, name: str) -> Answer:
        _only_get(request)
        if self._external is None:
            raise HttpError(404, "this node has no part in external services")
        return Response(200, msgspec.json.encode(await self._external(namespace, name)))

    async def _ingress_check(self, request: Request, address: str, port: str) -> Answer:
        _only_get(request)
        number = port_number(port)
        found = await self._ingress(address, number) if self._ingress is not None and number is not None else None
        if found is None:
            raise HttpError(404, "this node has no rules for a TCP port of that public address")
        return Response(200, msgspec.json.encode(found))

    async def _dial(self, request: Request, about: list[str]) -> Answer:
        port = port_number(about[3]) if len(about) == 4 else None
        if port is None:
            raise HttpError(404, "404 page not found")
        return await podports.connect(request, self._dialler(self._pod(*about[:3])), port)

    def _dialler(self, pod: JsonObject) -> podports.Dial:
        address = pod.get("status", {}).get("podIP")
        if not address:
            raise HttpError(500, f"pod {pod['metadata']['name']} has no address")
        return lambda port: self._connect(pod, address, port, podports.DIAL_TIMEOUT)

    def _pod(self, namespace: str = "", name: str = "", uid: str | None = None) -> JsonObject:
        pod = self._pods.find(namespace, name, uid)
        if pod is None:
            raise HttpError(404, "pod does not exist")
        return pod

    def _machine(self, namespace: str, name: str, uid: str) -> tuple[JsonObject, str]:
        pod = self._pod(namespace, name, uid)
        first: str = pod["spec"]["containers"][0]["name"]
        identity = self._pods.container_id(pod, first)
        if identity is None:
            raise HttpError(503, f"{name} does not run yet: see its events")
        return pod, identity

    def _container(self, rest: list[str]) -> tuple[JsonObject, str, str]:
        """Return pod, runtime id and name for NS/POD[/UID]/CONTAINER. Raises HttpError."""
        if len(rest) not in (3, 4):
            raise HttpError(404, "404 page not found")
        *place, name = rest
        pod = self._pod(*place)
        identity = self._pods.container_id(pod, name)
        if identity is None:
            raise HttpError(500, f'container not found ("{name}")')
        return pod, identity, name

    # Documents

    async def _all_pods(self, request: Request, rest: list[str]) -> Answer:
        _only_get(request)
        return document({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(self._pods.pods())})

    async def _running_pods(self, request: Request, rest: list[str]) -> Answer:
        """List the pods that the runtime runs, wanted or not."""
        _only_get(request)
        items: dict[str, JsonObject] = {}
        for sandbox in await self._runtime.sandboxes():
            if sandbox.ready:
                identity = {"name": sandbox.pod.name, "namespace": sandbox.pod.namespace, "uid": sandbox.pod.uid}
                items[sandbox.id] = {"metadata": identity, "spec": {"containers": []}, "status": {}}
        for container in await self._runtime.containers():
            if container.state == "running" and container.sandbox_id in items:
                shown = {"name": container.name, "image": container.image, "resources": {}}
                items[container.sandbox_id]["spec"]["containers"].append(shown)
        return document({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(items.values())})

    async def _stats(self, request: Request, rest: list[str]) -> Answer:
        _only_get(request)
        if rest != ["summary"]:
            raise HttpError(404, "404 page not found")
        return document(await self._node_metrics.summary())

    async def _metrics(self, request: Request, rest: list[str]) -> Answer:
        _only_get(request)
        if rest == ["resource"]:
            return text(200, resource_metrics(await self._node_metrics.summary()), METRICS)
        if rest:
            raise HttpError(404, "404 page not found")
        return text(200, await self._node_metrics.metrics(), METRICS)

    async def _healthz(self, request: Request, rest: list[str]) -> Answer:
        return text(200, "ok")

    async def _configz(self, request: Request, rest: list[str]) -> Answer:
        _only_get(request)
        return document({"kubeletconfig": self._config()})


async def _unknown(request: Request, rest: list[str]) -> Answer:
    raise HttpError(404, "404 page not found")


def _only_get(request: Request) -> None:
    if request.method != "GET":
        raise HttpError(405, "405: Method Not Allowed")


def _containers(pod: JsonObject) -> list[JsonObject]:
    return [each for field in _CONTAINERS for each in pod["spec"].get(field) or ()]


def _no_log(pod: JsonObject, container: str, previous: bool) -> str:
    """Return kubelet's message for a missing log."""
    name, status = pod["metadata"]["name"], pod.get("status", {})
    if previous:
        return f'previous terminated container "{container}" in pod "{name}" not found'
    for field in _CONTAINERS:
        for each in status.get(f"{field.removesuffix('s')}Statuses") or ():
            waiting = each.get("state", {}).get("waiting")
            if each["name"] == container and waiting is not None:
                return f'container "{container}" in pod "{name}" is waiting to start: {waiting.get("reason", "")}'
    return f'container "{container}" in pod "{name}" is not available'
