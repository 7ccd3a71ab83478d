"""Probes and lifecycle hooks of containers.

The shape is that of Kubernetes. Numbers that are omitted, or 0, get the defaults of Kubernetes in the Pod.
"""

from __future__ import annotations

from typing import Annotated, Literal

from tarmac.api.declare import Field, IntOrString, Struct

Port = Annotated[IntOrString, Field("Number of the port, 1 to 65535, or the name of one of the container's ports.")]
Host = Annotated[str, Field("Must be empty: it is the instance that is asked. A `Host` header may name another.")]


class ExecAction(Struct):
    """A command that runs inside the container; 0 is success."""

    command: Annotated[list[str], Field("The command and its arguments. It is not run by a shell.")] = []


class HTTPHeader(Struct):
    """A header to send."""

    name: Annotated[str, Field("Its name.")]
    value: Annotated[str, Field("Its value.")]


class HTTPGetAction(Struct):
    """A request over HTTP; every answer from 200 to 399 is success."""

    port: Port
    path: Annotated[str, Field("The path of the request; by default /.")] = ""
    host: Host = ""
    scheme: Annotated[
        Literal["HTTP", "HTTPS"], Field("HTTP, the default, or HTTPS, which does not verify the certificate.")
    ] = "HTTP"
    http_headers: Annotated[list[HTTPHeader], Field("Headers to send; a name may be repeated.")] = []


class TCPSocketAction(Struct):
    """A connection; that it opens is success."""

    port: Port
    host: Host = ""


class GRPCAction(Struct):
    """A question by the protocol grpc.health.v1; SERVING is success."""

    port: Annotated[int, Field("Number of the port.", minimum=1, maximum=65535)]
    service: Annotated[str, Field("Name of the service that is asked for; by default none.")] = ""


class SleepAction(Struct):
    """A wait."""

    seconds: Annotated[int, Field("How long.", format="int64")]


class Probe(Struct):
    """A question that is asked again and again. Exactly one of exec, httpGet, tcpSocket and grpc is set."""

    exec: Annotated[ExecAction | None, Field("Run a command in the container.")] = None
    http_get: Annotated[HTTPGetAction | None, Field("Ask over HTTP.")] = None
    tcp_socket: Annotated[TCPSocketAction | None, Field("Open a connection.")] = None
    grpc: Annotated[GRPCAction | None, Field("Ask by the health protocol of gRPC.")] = None
    initial_delay_seconds: Annotated[int, Field("How long after the start the first is asked; by default 0.")] = 0
    timeout_seconds: Annotated[int, Field("How long an answer may take; by default 1.")] = 0
    period_seconds: Annotated[int, Field("How long from one to the next; by default 10.")] = 0
    success_threshold: Annotated[
        int, Field("Successes in a row that mend; by default 1, and no other but for readiness.")
    ] = 0
    failure_threshold: Annotated[int, Field("Failures in a row that count as one; by default 3.")] = 0
    termination_grace_period_seconds: Annotated[
        int | None,
        Field("Time to end in after this probe failed; by default the sandbox's. Not for readiness.", format="int64"),
    ] = None


class LifecycleHandler(Struct):
    """The action of a hook. Exactly one of the fields is set."""

    exec: Annotated[ExecAction | None, Field("Run a command in the container.")] = None
    http_get: Annotated[HTTPGetAction | None, Field("Ask over HTTP.")] = None
    sleep: Annotated[SleepAction | None, Field("Wait.")] = None


class ContainerLifecycle(Struct):
    """Hooks of a container."""

    post_start: Annotated[
        LifecycleHandler | None, Field("Right after the start; a failure ends the container. Readiness waits for it.")
    ] = None
    pre_stop: Annotated[
        LifecycleHandler | None, Field("Before the container is told to end, within terminationGracePeriodSeconds.")
    ] = None
