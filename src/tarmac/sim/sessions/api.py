"""Serves requests about simulated pods, on the paths of the agent's node API.

    /containerLogs/NS/POD/CONTAINER            /healthz
    /exec|attach/NS/POD[/UID]/CONTAINER        /tarmac/v1/dial/NS/POD/UID/PORT
    /portForward/NS/POD[/UID]                  /tarmac/v1/console|vnc|power|recordings/NS/POD/UID
    /metrics

The server has authorized each request. Connections exist within this process only: `SimulatedNodes.dial`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from tarmac.agent.http import execstreams, podports
from tarmac.agent.http.kubeletanswers import METRICS, HttpError, refusal, text
from tarmac.agent.http.logs.options import LogOptions
from tarmac.agent.http.machines.api import PLACES, ConsoleServices, MachineApi, is_machine
from tarmac.agent.http.machines.recordings import Recordings
from tarmac.agent.http.machines.sessions import MachineSessions
from tarmac.agent.stats.summary import metrics_text
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.clock import parse_rfc3339
from tarmac.base.digits import port_number
from tarmac.base.tasks import Tasks
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import PODS
from tarmac.http.messages import Answer, Request
from tarmac.http.streams import stream_of
from tarmac.runtimes.interface import (
    NO_EXEC,
    CommandStream,
    NotOffered,
    RuntimeFault,
    RuntimeObjectNotFound,
    StreamOptions,
    TooManyStreams,
    WrongState,
)
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.pod import PodStage, SimulatedPod, Termination
from tarmac.sim.nodes.simgpus import SimulatedGpus
from tarmac.sim.sessions import page
from tarmac.sim.sessions.commands import NAMES, PROGRAMS
from tarmac.sim.sessions.instance import enter
from tarmac.sim.sessions.lines import SimulatedLog
from tarmac.sim.sessions.peers import SessionPeers
from tarmac.sim.sessions.shell import Session, Shell
from tarmac.sim.sessions.simulatedconsoles import SimulatedMachines
from tarmac.sim.sessions.simulatedstreams import SimulatedStream, Work
from tarmac.sim.sessions.terminal import Terminal

_CODES = ((NotOffered, 400), (WrongState, 409), (TooManyStreams, 429))


class SimulatedNodeApi:
    """Answers for all nodes of a fleet. `recordings` is the folder of recorded console sessions."""

    def __init__(self, fleet: SimulatedNodes, client: Client, recordings: Path) -> None:
        self._fleet = fleet
        self._client = client
        self._clock = client.clock
        self._pods = client.resource(PODS)
        self._peers = SessionPeers(client, fleet)
        self._gpus = SimulatedGpus()
        self._tasks = Tasks()
        kept = Recordings(recordings, client.clock)
        sessions = MachineSessions(kept, lambda _pod, _reason, _message: None)
        self._consoles = ConsoleServices(sessions, kept, client.randomness)
        self.machines = SimulatedMachines(fleet, client.clock, self._tasks, self._login)
        self._routes: dict[str, Callable[[Request, list[str]], Awaitable[Answer]]] = {
            "containerLogs": self._logs,
            "exec": self._exec,
            "attach": self._attach,
            "portForward": self._port_forward,
            "tarmac": self._own,
            "healthz": self._healthz,
            "metrics": self._metrics,
        }

    async def close(self) -> None:
        """End all sessions."""
        await self._tasks.close()

    async def answer(self, request: Request) -> Answer:
        """Serve a request."""
        first, *rest = request.path.strip("/").split("/")
        try:
            return await self._routes.get(first, _unknown)(request, rest)
        except HttpError as error:
            return text(error.status, str(error))
        except (NotOffered, WrongState, TooManyStreams) as fault:
            return refusal(next(code for kind, code in _CODES if isinstance(fault, kind)), str(fault))
        except RuntimeObjectNotFound as fault:
            return text(404, str(fault))
        except (RuntimeFault, ApiError, ClientError) as fault:
            return text(500, str(fault))

    async def _logs(self, request: Request, rest: list[str]) -> Answer:
        try:
            options = LogOptions.read(request.params(), self._clock.now())
        except ValueError as error:
            raise HttpError(422, str(error)) from error
        if len(rest) != 3:
            raise HttpError(404, "404 page not found")
        pod, known = await self._find(*rest[:2])
        log = self._log_of(pod, known, rest[2], options.previous)
        return stream_of(log.read(options, self._clock, self._is_current(known)), content_type="text/plain")

    def _log_of(self, pod: JsonObject, known: SimulatedPod, container: str, previous: bool) -> SimulatedLog:
        """Return the log of a container's last or previous start. Raises HttpError."""
        node = self._fleet.nodes[known.node]
        image = next((image for name, image in (*known.initial, *known.containers) if name == container), None)
        if image is None:
            raise HttpError(404, f'container "{container}" not found in pod "{known.name}"')
        make = partial(SimulatedLog, f"{container} in {node.place.city}", known.node, image)
        if any(name == container for name, _ in known.initial):
            began = parse_rfc3339(known.start_time)
            return make(began, began, 0)
        over = known.last
        if previous or known.stage in (PodStage.BACKOFF, PodStage.ENDED):
            if over is None:
                raise HttpError(400, f'previous terminated container "{container}" in pod "{known.name}" not found')
            return make(parse_rfc3339(over.started), *_end(over))
        if not known.runs:
            raise HttpError(400, f'container "{container}" in pod "{known.name}" is waiting to start')
        return make(parse_rfc3339(known.started))

    def _is_current(self, pod: SimulatedPod) -> Callable[[], bool]:
        """Return a check that the pod still runs the start that it runs now."""
        started = pod.started
        return lambda: pod.runs and pod.started == started and self._fleet.find(pod.uid) is pod

    async def _exec(self, request: Request, rest: list[str]) -> Answer:
        options = execstreams.read_options(request.params())
        words = request.params().get("command")
        if not words:
            raise HttpError(400, "you must specify at least 1 command")
        pod, known, name = await self._running(rest)
        if is_machine(pod):
            raise NotOffered(NO_EXEC)
        if words[0].rpartition("/")[2] not in NAMES and words[0].rpartition("/")[2] not in ("bash", "ash"):
            known_words = ", ".join(NAMES)
            raise HttpError(500, f'exec: "{words[0][:64]}" is not simulated; a simulated instance has {known_words}')
        work = await self._shell(pod, known, name, words)
        return await execstreams.stream(request, lambda: self._open(options, work), options)

    async def _open(self, options: StreamOptions, work: Work) -> CommandStream:
        return SimulatedStream(options, work, self._tasks)

    async def _shell(self, pod: JsonObject, known: SimulatedPod, name: str, words: list[str]) -> Work:
        entered = await enter(self._client, pod, name, (known, self._fleet.nodes[known.node]), NAMES)

        async def work(terminal: Terminal) -> int:
            session = Session(entered, self._peers, self._clock, dict(entered.variables))
            return await Shell(session, terminal, PROGRAMS, self._tasks).execute(words)

        return work

    async def _login(self, uid: str) -> Work:
        known = self._fleet.find(uid)
        if known is None:
            raise RuntimeObjectNotFound("the machine is gone")
        pod, _ = await self._find(known.namespace, known.name, uid)
        return await self._shell(pod, known, known.containers[0][0], ["sh"])

    async def _attach(self, request: Request, rest: list[str]) -> Answer:
        asked = execstreams.read_options(request.params())
        pod, known, name = await self._running(rest)
        spec = next(each for each in pod["spec"]["containers"] if each["name"] == name)
        # The terminal of a running process is fixed by its spec.
        tty = bool(spec.get("tty"))
        options = StreamOptions(asked.stdin, asked.stdout, asked.stderr and not tty, tty)
        if is_machine(pod):
            return await self._machine_api(pod, known).attach(request, pod, known.uid, options)
        log = self._log_of(pod, known, name, previous=False)
        follow = LogOptions(follow=True, tail=0)

        async def work(terminal: Terminal) -> int:
            async for chunk in log.read(follow, self._clock, self._is_current(known)):
                await terminal.write(chunk)
            return 0

        return await execstreams.stream(request, lambda: self._open(options, work), options)

    async def _port_forward(self, request: Request, rest: list[str]) -> Answer:
        if len(rest) not in (2, 3):
            raise HttpError(404, "404 page not found")
        return podports.forward(request, self._dialler(*await self._find(*rest)))

    def _dialler(self, pod: JsonObject, known: SimulatedPod) -> podports.Dial:
        node = self._fleet.nodes[known.node]
        if not known.runs:
            raise HttpError(500, f"pod {known.name} does not run")
        return lambda port: page.connect(pod, node.name, node.place.city, port)

    async def _own(self, request: Request, rest: list[str]) -> Answer:
        """Serve the paths that kubelets do not have."""
        version, place, *about = rest if len(rest) > 1 else ("", "")
        if version == "v1" and place == "dial" and len(about) == 4:
            port = port_number(about[3])
            if port is not None:
                return await podports.connect(request, self._dialler(*await self._find(*about[:3])), port)
        if version == "v1" and place in PLACES and len(about) == 3:
            if place == "recordings":  # they outlive the machine
                return await MachineApi(self.machines, _nothing, self._consoles).answer(place, request, about)
            return await self._machine_api(*await self._find(*about)).answer(place, request, about)
        raise HttpError(404, "404 page not found")

    def _machine_api(self, pod: JsonObject, known: SimulatedPod) -> MachineApi:
        def find(namespace: str, name: str, uid: str) -> tuple[JsonObject, str]:
            if not known.runs:
                raise HttpError(503, f"{name} does not run yet: see its events")
            return pod, known.uid

        return MachineApi(self.machines, find, self._consoles)

    async def _healthz(self, request: Request, rest: list[str]) -> Answer:
        return text(200, "ok")

    async def _metrics(self, request: Request, rest: list[str]) -> Answer:
        """Return the figures of a node's GPUs; a simulated node measures nothing else."""
        # All nodes share this server: the route to a node has its name as the host.
        node = self._fleet.nodes.get(request.headers.get("host", ""))
        if node is None or rest:
            raise HttpError(404, "404 page not found")
        return text(200, metrics_text(self._gpus.samples(node)), METRICS)

    async def _running(self, rest: list[str]) -> tuple[JsonObject, SimulatedPod, str]:
        """Return pod and container for NS/POD[/UID]/CONTAINER. Raises HttpError."""
        if len(rest) not in (3, 4):
            raise HttpError(404, "404 page not found")
        *place, name = rest
        pod, known = await self._find(*place)
        if not known.runs or all(each != name for each, _ in known.containers):
            raise HttpError(500, f'container not found ("{name}")')
        return pod, known, name

    async def _find(self, namespace: str, name: str, uid: str = "") -> tuple[JsonObject, SimulatedPod]:
        """Return the Pod and its simulated state. Raises HttpError."""
        pod = await self._pods.get(name, namespace)
        known = self._fleet.find(pod["metadata"]["uid"])
        if known is None or (uid and uid != known.uid):
            raise HttpError(404, f'pod "{name}" does not exist')
        return pod, known


def _end(over: Termination) -> tuple[float, int]:
    return parse_rfc3339(over.finished), over.code


def _nothing(namespace: str, name: str, uid: str) -> tuple[JsonObject, str]:
    raise HttpError(404, "404 page not found")


async def _unknown(request: Request, rest: list[str]) -> Answer:
    raise HttpError(404, "404 page not found")
