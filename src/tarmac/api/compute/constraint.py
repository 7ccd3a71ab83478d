"""Placement constraints: CEL expressions over a Location's topology.

An expression sees `region`, `cityCode` and `topology` (every topology key), and must be a bool. It is compiled and
type-checked when a Workload is written, so a placement never fails on a typo later. The CEL library is loaded when the
first expression is met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

MAX_LENGTH = 4096

Constraint = Callable[[Mapping[str, str]], bool]
"""Whether a place with this topology is meant."""


class ConstraintError(ValueError):
    """The expression does not compile, or is no condition."""


_TOPOLOGY_KEY = re.compile(r"""\btopology(?:\[\s*(['"])(.*?)\1\s*\]|\.([A-Za-z_]\w*))""")


@cache
def _environment() -> Any:
    try:
        from cel_expr_python import cel
    except ImportError:
        raise ConstraintError("this server has no CEL: the package cel-expr-python is not installed") from None
    strings = cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
    return cel.NewEnv(variables={"region": cel.Type.STRING, "cityCode": cel.Type.STRING, "topology": strings})


@lru_cache(maxsize=256)
def compile_constraint(text: str) -> Constraint:
    """The expression as a function of a topology. Raises ConstraintError with the compiler's words."""
    from tarmac.api.networking.names import TOPOLOGY_CITY_CODE, TOPOLOGY_REGION

    try:
        program = _environment().compile(text)
    except RuntimeError as error:
        raise ConstraintError(_readable(str(error))) from None
    if program.return_type().name() != "BOOL":
        raise ConstraintError(f"must be a bool, but is of type {program.return_type().name().lower()}")

    # A key that a place lacks is the empty string, while CEL would stop with an error.
    absent = {match[2] or match[3]: "" for match in _TOPOLOGY_KEY.finditer(text)}

    def matches(topology: Mapping[str, str]) -> bool:
        region, city = topology.get(TOPOLOGY_REGION, ""), topology.get(TOPOLOGY_CITY_CODE, "")
        result = program.eval(data={"region": region, "cityCode": city, "topology": {**absent, **topology}})
        return result.value() is True

    return matches


def _readable(message: str) -> str:
    """The first line of the compiler's complaint, without its status words."""
    line = message.splitlines()[0].removeprefix("INVALID_ARGUMENT: ").removeprefix("ERROR: ")
    return line.replace("<input>:1:", "column ").replace(" (in container '')", "")
