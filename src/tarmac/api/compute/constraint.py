"""Placement constraints: CEL expressions over a Location's topology.

An expression sees `region`, `cityCode` and `topology` (every topology key), and must be a bool. It is compiled,
type-checked and evaluated once when a Workload is written, so a placement never fails on a typo later. Later errors can
only come from a place's own values (`1 / int(topology['racks'])`). The CEL library is loaded for the first expression.

Expressions are evaluated for every place, so they must be cheap. Nested loops, and loops that make their values longer,
are expensive: two hundred characters of those block the server for seconds. One short loop is enough to search a
topology.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from tarmac.base.boundedcache import bounded_cache

MAX_LENGTH = 4096
_MAX_LOOPS = 1
_MAX_LENGTH_WITH_LOOP = 512

Constraint = Callable[[Mapping[str, str]], bool]
"""Return True if a place with this topology is selected. Raises ConstraintError if the evaluation fails."""


class ConstraintError(ValueError):
    """The expression does not compile, is not a bool, or cannot be evaluated for a place."""


class _NoAnswerError(ConstraintError):
    """The evaluation failed because of the values of one place."""


# A comment may precede the parenthesis. The words may also occur in a string, where two of them are rare.
_LOOP = re.compile(r"\b(?:all|exists|exists_one|map|filter)\s*(?:\(|//)")
_TOPOLOGY_KEY = re.compile(r"""\btopology(?:\[\s*(['"])(.*?)\1\s*\]|\.([A-Za-z_]\w*))""")


@cache
def _environment() -> Any:
    try:
        from cel_expr_python import cel
    except ImportError:
        raise ConstraintError("this server has no CEL: the package cel-expr-python is not installed") from None
    strings = cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
    return cel.NewEnv(variables={"region": cel.Type.STRING, "cityCode": cel.Type.STRING, "topology": strings})


@bounded_cache(256)
def compile_constraint(text: str) -> Constraint:
    """Compile the expression into a function of a topology. Raises ConstraintError with the compiler's message."""
    from tarmac.api.networking.names import TOPOLOGY_CITY_CODE, TOPOLOGY_REGION

    _check_loops(text)
    try:
        program = _environment().compile(text)
    except RuntimeError as error:
        raise ConstraintError(_readable(str(error))) from None
    if program.return_type().name() != "BOOL":
        raise ConstraintError(f"must be a bool, but is of type {program.return_type().name().lower()}")

    # A missing key is the empty string, while CEL would stop with an error.
    absent = {match[2] or match[3]: "" for match in _TOPOLOGY_KEY.finditer(text)}

    def matches(topology: Mapping[str, str]) -> bool:
        region, city = topology.get(TOPOLOGY_REGION, ""), topology.get(TOPOLOGY_CITY_CODE, "")
        try:
            answer = program.eval(data={"region": region, "cityCode": city, "topology": {**absent, **topology}}).value()
        except RuntimeError as error:  # too many steps, or an error of the library
            raise ConstraintError(_readable(str(error))) from None
        if not isinstance(answer, bool):
            raise _NoAnswerError(_readable(str(answer)))
        return answer

    with suppress(_NoAnswerError):  # the empty topology may lack a value that the expression needs
        matches({})
    return matches


def _check_loops(text: str) -> None:
    loops = len(_LOOP.findall(text))
    if loops > _MAX_LOOPS:
        raise ConstraintError(f"has {loops} loops (all, exists, exists_one, map, filter); {_MAX_LOOPS} is allowed")
    if loops and len(text) > _MAX_LENGTH_WITH_LOOP:
        raise ConstraintError(f"with a loop it must be no more than {_MAX_LENGTH_WITH_LOOP} characters")


def _readable(message: str) -> str:
    """Return the first line of the compiler's message, without its status words."""
    line = message.splitlines()[0].removeprefix("INVALID_ARGUMENT: ").removeprefix("ERROR: ")
    line = line.removeprefix("INTERNAL: ").removesuffix(" [INTERNAL]")
    return line.replace("<input>:1:", "column ").replace(" (in container '')", "")
