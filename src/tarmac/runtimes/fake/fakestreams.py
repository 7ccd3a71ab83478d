"""A stream to a fake command: at `begin` it delivers all output and the exit code at once."""

from __future__ import annotations

from tarmac.runtimes.interface import ExecResult, StreamClient, StreamOptions, TerminalSize
from tarmac.wire.channels import Channel, exited


class FakeStream:
    """Implements `CommandStream`. Without a result it stays silent until the client disconnects. Input is recorded."""

    def __init__(self, options: StreamOptions, result: ExecResult | None = None) -> None:
        self.heard = b""
        self.input_ended = False
        self.size: TerminalSize | None = None
        self.closed = False
        self._options = options
        self._result = result
        self._client: StreamClient | None = None

    def attach(self, client: StreamClient) -> None:
        self._client = client

    def begin(self) -> None:
        client, result = self._client, self._result
        if client is None or result is None:
            return
        if self._options.stdout and result.stdout:
            client.output(Channel.STDOUT, result.stdout)
        if self._options.stderr and result.stderr:
            client.output(Channel.STDERR, result.stderr)
        client.output(Channel.ERROR, exited(result.exit_code))
        client.flush()
        client.end()

    def write(self, data: bytes) -> None:
        self.heard += data

    def finish_input(self) -> None:
        self.input_ended = True

    def resize(self, size: TerminalSize) -> None:
        self.size = size

    def read(self, wanted: bool) -> None:
        """Ignored: all output is delivered at once."""

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True
