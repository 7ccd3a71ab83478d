"""The ledger of nodes as a table, and of one node in detail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tarmac.cli.rendering.text import printable, table
from tarmac.decide.allocatable.accounts import ClassAccount, NodeLedger, PodEntry, ResourceAccount
from tarmac.decide.allocatable.nodestatus import CPU_OVERSUBSCRIPTION, three_decimals
from tarmac.decide.allocatable.report import NodeReport
from tarmac.decide.allocatable.reservations import PID
from tarmac.decide.amounts import CPU, shown
from tarmac.decide.exclusivecpus import CPU_EXCLUSIVE

_NODES = (
    "NODE", "CITY", "CPU", "RESERVED", "OVERSUB", "ALLOCATABLE", "EXCLUSIVE", "COMMITTED", "USED", "PRESSURE",
)  # fmt: skip
_PODS = ("NAMESPACE", "NAME", "CPU", "SHARE", "CPUS", "CLASSES")
_NONE = "-"


def node_table(reports: Sequence[NodeReport]) -> str:
    """Return one line for each node, about its CPUs."""
    return _table(_NODES, [_row(each) for each in reports]) + "\n" if reports else "No nodes found\n"


def node_details(report: NodeReport) -> str:
    """Return everything about one node."""
    ledger = report.ledger
    sections = {
        "Capacity": list(_capacity(ledger)),
        "Reserved": _aligned((f"{each}:", *rest) for each, *rest in _reserved(ledger)),
        "Allocatable": [f"{each.resource}: {_shown(each, each.allocatable)}" for each in _countable(ledger)],
        "Committed": list(_committed(ledger)) if report.counted else ["unknown"],
        "Classes": [_class(each) for each in ledger.classes],
    }
    lines = [f"Name: {report.name}", f"City: {report.city or _NONE}", f"Pressure: {_pressure(report)}"]
    for title, entries in sections.items():
        lines += [f"{title}:", *(f"  {printable(entry)}" for entry in entries or ["none"])]
    if report.counted:
        lines += ["Pods:", _table(_PODS, [_pod(each) for each in ledger.pods]) if ledger.pods else "  none"]
    return "\n".join(lines) + "\n"


def _row(report: NodeReport) -> tuple[str, ...]:
    cpu = next((each for each in report.ledger.resources if each.resource == CPU), None)
    if cpu is None:  # a Node without status from an agent yet
        return (report.name, report.city or _NONE, *(_NONE,) * 7, _pressure(report))
    return (
        report.name,
        report.city or _NONE,
        shown(CPU, cpu.capacity),
        shown(CPU, cpu.held()),
        three_decimals(cpu.oversubscription),
        shown(CPU, cpu.allocatable),
        _exclusive(cpu, report.counted),
        shown(CPU, cpu.committed) if report.counted else _NONE,
        _NONE if cpu.used is None else shown(CPU, cpu.used),
        _pressure(report),
    )


def _exclusive(cpu: ResourceAccount, counted: bool) -> str:
    """Return allocated and total exclusive CPUs."""
    if cpu.exclusive is None:
        return _NONE
    given = shown(CPU, cpu.exclusive.committed) if counted else "?"
    return f"{given}/{shown(CPU, cpu.exclusive.capacity)}"


def _pressure(report: NodeReport) -> str:
    return printable(",".join(report.pressures)) or _NONE


def _countable(ledger: NodeLedger) -> Iterator[ResourceAccount]:
    """Yield all resources except PIDs: a Node reports the reserved number, not the capacity."""
    return (each for each in ledger.resources if each.resource != PID)


def _capacity(ledger: NodeLedger) -> Iterator[str]:
    for each in _countable(ledger):
        yield f"{each.resource}: {_shown(each, each.capacity)}"
        if each.oversubscription:
            yield f"{CPU_OVERSUBSCRIPTION}: {three_decimals(each.oversubscription)}"
        if each.exclusive is not None:
            yield f"{CPU_EXCLUSIVE}: {_shown(each, each.exclusive.capacity)}"


def _reserved(ledger: NodeLedger) -> Iterator[tuple[str, ...]]:
    for each in ledger.resources:
        for held in each.reserved:
            yield each.resource, _shown(each, held.amount), held.purpose, held.source


def _committed(ledger: NodeLedger) -> Iterator[str]:
    for each in _countable(ledger):
        used = "" if each.used is None else f", used {_shown(each, each.used)}"
        yield f"{each.resource}: {_shown(each, each.committed)} of {_shown(each, each.allocatable)}{used}"
        if each.exclusive is not None:
            given, there = (_shown(each, amount) for amount in (each.exclusive.committed, each.exclusive.capacity))
            yield f"{CPU_EXCLUSIVE}: {given} of {there}"


def _class(account: ClassAccount) -> str:
    level = " (of pods)" if account.pod_level else ""
    limit = ", no limit" if account.capacity is None else f" of {account.capacity}"
    return f"{account.type}/{account.name}{level}: {account.used}{limit}"


def _pod(pod: PodEntry) -> tuple[str, ...]:
    return (
        pod.namespace,
        pod.name,
        shown(CPU, pod.requests.get(CPU, 0)),
        str(pod.weight),
        _by_container({name: str(cpus) for name, cpus in pod.cpus.items()}),
        _by_container({name: ",".join(_names(classes)) for name, classes in pod.classes.items()}),
    )


def _names(classes: Mapping[str, str]) -> Iterator[str]:
    """Yield class names. A requested class that is not in effect has no name."""
    return (f"{kind}/{name or '(not in effect)'}" for kind, name in sorted(classes.items()))


def _by_container(texts: Mapping[str, str]) -> str:
    return " ".join(f"{name}={text}" if name else text for name, text in texts.items()) or _NONE


def _aligned(rows: Iterator[tuple[str, ...]]) -> list[str]:
    listed = list(rows)
    widths = [max(len(row[index]) for row in listed) for index in range(len(listed[0]))] if listed else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in listed]


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table without wrapping: a terminal wraps it, and programs parse it."""
    return table(headers, rows, width=1000)


def _shown(account: ResourceAccount, amount: int) -> str:
    return shown(account.resource, amount)
