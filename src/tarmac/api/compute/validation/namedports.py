"""Named ports. Containers of an instance share its network, so names and numbers are unique in the instance."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.checks import objects
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

PROTOCOLS = ("TCP", "UDP", "SCTP")


class PortChecks:
    """The ports seen so far in one instance."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._numbers: set[tuple[int, str]] = set()

    def check(self, user: JsonObject, path: str, errors: FieldErrors) -> None:
        """Check the ports of a container or a virtual machine."""
        for index, port in enumerate(objects(user, "ports")):
            where = f"{path}.ports[{index}]"
            self._name(port.get("name", ""), f"{where}.name", errors)
            protocol = port.get("protocol", "TCP")
            self._number(port.get("port"), protocol, f"{where}.port", errors)
            checks.one_of(protocol, PROTOCOLS, f"{where}.protocol", errors)

    def _name(self, name: str, path: str, errors: FieldErrors) -> None:
        if not name:
            errors.required(path)
            return
        checks.report(names.port_name(name), name, path, errors)
        if name in self._names:
            errors.duplicate(path, name)
        self._names.add(name)

    def _number(self, number: int | None, protocol: str, path: str, errors: FieldErrors) -> None:
        if number is None:
            errors.required(path)
            return
        checks.port_number(number, path, errors)
        if (number, protocol) in self._numbers:
            errors.duplicate(path, number)
        self._numbers.add((number, protocol))
