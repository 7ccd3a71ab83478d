"""Validates all providers of a node and runs them in the order of the file.

Nothing is cached between two rounds, not even the file checks, and nothing is retried. If two providers name the same
amount, the earlier wins; the later is still run, and its failure is still a failure: a node must not start with sizes
other than the configured providers determine.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tarmac.agent.config.configreader import BadConfig, StatedConfig
from tarmac.agent.sizing.execution import ProgramExit, ProgramLimits, ProgramNotEnded, execute
from tarmac.agent.sizing.providerconfig import FLAG, SizingProvider, SizingProviderConfig, read_config
from tarmac.agent.sizing.response import BadResponse, SizingResponse, decode, request
from tarmac.agent.sizing.trust import Untrusted, trusted, trusted_program
from tarmac.agent.stats.summary import Sample
from tarmac.base.clock import Clock
from tarmac.base.gates import SIZING_PROVIDERS
from tarmac.base.log import log
from tarmac.decide.allocatable.reservations import Reserved

BIN_DIR_FLAG: Final = "--sizing-provider-bin-dir"
_MAX_STDERR: Final = 4096  # bytes of stderr included in an error
_log = log("agent")


class ProviderFailed(Exception):
    """A provider could not be run or gave no valid response. The message names it and the reason."""


@dataclass(frozen=True, slots=True)
class ProviderProgram:
    """A provider and its executable."""

    provider: SizingProvider
    path: Path


@dataclass(slots=True)
class SizingMetrics:
    """Metrics by provider: duration of the last run, and number of failures."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    errors: dict[str, int] = field(default_factory=dict[str, int])


class SizingProviders:
    """The providers of a node."""

    def __init__(self, config: Path, bin_dir: Path, clock: Clock, limits: ProgramLimits | None = None) -> None:
        self.digest = ""
        self.counters = SizingMetrics()
        self._config = config
        self._bin_dir = bin_dir
        self._clock = clock
        self._limits = limits or ProgramLimits()

    @staticmethod
    def stated(config_stated: StatedConfig, clock: Clock) -> SizingProviders | None:
        """Return the providers of flags and file; None without any. Raises BadConfig for contradictory settings."""
        config, bin_dir = config_stated.flags.sizing_provider_config, config_stated.flags.sizing_provider_bin_dir
        if config is None and bin_dir is None:
            if config_stated.kubelet.sizing_provider_period:
                raise BadConfig(f"sizingProviderPeriod: no providers to run; give {FLAG} and {BIN_DIR_FLAG}")
            return None
        if config is None or bin_dir is None:
            raise BadConfig(f"{FLAG} and {BIN_DIR_FLAG} are given both or not at all")
        if not config_stated.gates.enabled(SIZING_PROVIDERS):
            raise BadConfig(f"{FLAG}: switch it on with --feature-gates={SIZING_PROVIDERS}=true")
        return SizingProviders(config, bin_dir, clock)

    async def ask(self) -> SizingResponse:
        """Validate everything that can be checked without running it, then run all providers.

        Raises BadConfig, ProviderFailed.
        """
        user = os.geteuid()
        folder = _folder(self._bin_dir, user)
        config = read_config(self._config, user)
        # Before any program runs: the metric also names the file of a round that fails.
        self.digest = config.digest
        system: dict[str, Reserved] = {}
        kube: dict[str, Reserved] = {}
        # All files are checked before the first program runs: an untrusted one prevents the whole round.
        for program in _programs(config, folder, user):
            answer = await self._asked(program)
            _fill(system, answer.system)
            _fill(kube, answer.kube)
        return SizingResponse(system, kube)

    def metrics(self) -> Iterator[Sample]:
        """Yield the metrics."""
        for name, seconds in self.counters.seconds.items():
            of = {"plugin_name": name}
            yield "kubelet_sizing_provider_plugin_duration_seconds", "gauge", of, seconds
            yield "kubelet_sizing_provider_plugin_errors_total", "counter", of, self.counters.errors[name]
        yield "kubelet_sizing_provider_config_info", "gauge", {"hash": f"sha256:{self.digest}"}, 1

    async def _asked(self, program: ProviderProgram) -> SizingResponse:
        name, began = program.provider.name, self._clock.monotonic()
        self.counters.errors.setdefault(name, 0)
        try:
            return await self._answer(program)
        except ProviderFailed:
            self.counters.errors[name] += 1
            raise
        finally:
            self.counters.seconds[name] = self._clock.monotonic() - began

    async def _answer(self, program: ProviderProgram) -> SizingResponse:
        provider = program.provider
        fails = f'sizing provider "{provider.name}": '
        environment = {**os.environ, **provider.env}
        command = (str(program.path), *provider.args)
        try:
            ended = await execute(command, environment, request(provider.api_version), self._limits)
        except OSError as error:
            raise ProviderFailed(f"{fails}cannot be executed: {error.strerror or error}") from error
        except ProgramNotEnded as error:
            raise ProviderFailed(f"{fails}{error}{_stderr_text(error.err)}") from error
        if ended.status:
            raise ProviderFailed(f"{fails}{_worded(ended)}{_stderr_text(ended.err)}")
        try:
            answer = decode(ended.out, provider.api_version, f"provider {provider.name}")
        except BadResponse as error:
            raise ProviderFailed(f"{fails}{error}{_stderr_text(ended.err)}") from error
        if ended.err:
            _log.debug(
                "sizing provider wrote to stderr", provider=provider.name, stderr=ended.err.decode(errors="replace")
            )
        return answer


def _folder(path: Path, user: int) -> Path:
    try:
        found = trusted(path, user)
    except Untrusted as error:
        raise BadConfig(f"{BIN_DIR_FLAG}: {error}") from error
    if not stat.S_ISDIR(os.lstat(found).st_mode):
        raise BadConfig(f"{BIN_DIR_FLAG}: {path} is not a directory")
    return found


def _programs(config: SizingProviderConfig, folder: Path, user: int) -> tuple[ProviderProgram, ...]:
    found: list[ProviderProgram] = []
    findings: list[str] = []
    for provider in config.providers:
        try:
            found.append(ProviderProgram(provider, trusted_program(folder, provider.name, user)))
        except Untrusted as error:
            findings.append(f'sizing provider "{provider.name}": {error}')
    if findings:
        raise BadConfig("; ".join(findings))
    return tuple(found)


def _fill(found: dict[str, Reserved], more: Mapping[str, Reserved]) -> None:
    for resource, amount in more.items():
        found.setdefault(resource, amount)


def _worded(ended: ProgramExit) -> str:
    return f"exited with code {ended.status}" if ended.status > 0 else f"killed by signal {-ended.status}"


def _stderr_text(err: bytes) -> str:
    """Return the end of stderr on one line, without control characters."""
    text = err[-_MAX_STDERR:].decode(errors="replace").strip()
    line = "; ".join(part.strip() for part in text.splitlines() if part.strip())
    printable = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    return f": {printable}" if printable else ""
