"""`/livez`, `/readyz`, `/healthz`: named checks, each also under a path of its own.

A check returns the reason of its failure, or None. `?verbose` lists all checks; `?exclude=name` skips one and marks it
in the list. Reasons are logged and not sent to clients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from tarmac.base.log import log
from tarmac.http.messages import Request, Response

Check = Callable[[], str | None]

_TEXT = "text/plain; charset=utf-8"
_log = log("health")


class HealthEndpoint:
    """The checks of one of the paths. `elsewhere` are those of other processes of this server.

    A failure of this process gives 500, as in Kubernetes; a failure only in other processes gives 503.
    """

    def __init__(self, name: str, checks: Mapping[str, Check], elsewhere: Mapping[str, Check] | None = None) -> None:
        self.name = name
        self._elsewhere = elsewhere or {}
        self._checks = {"ping": lambda: None, **checks, **self._elsewhere}

    def names(self) -> Iterable[str]:
        """Return the paths below."""
        return self._checks

    def answer(self, request: Request, part: str) -> Response | None:
        """Run the checks; None when there is no check called `part`."""
        if part:
            check = self._checks.get(part)
            if check is None:
                return None
            return self._run({part: check}, verbose=False)
        excluded = request.params().get("exclude", [])
        answer = self._run(self._checks, "verbose" in request.params(), excluded)
        answer.headers = [("X-Content-Type-Options", "nosniff")]
        return answer

    def _run(self, checks: Mapping[str, Check], verbose: bool, excluded: Collection[str] = ()) -> Response:
        lines: list[str] = []
        failed = 0
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            why = check()
            if why is None:
                lines.append(f"[+]{name} ok")
            else:
                failed = max(failed, 503 if name in self._elsewhere else 500, key=(0, 503, 500).index)
                lines.append(f"[-]{name} failed: reason withheld")
                # The reason stays in the log: these paths are open to anonymous clients.
                _log.warning("health check failed", check=name, why=why)
        if unknown := [name for name in excluded if name not in checks]:
            named = ",".join(f'"{name}"' for name in sorted(unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
        if not failed and not verbose:
            return Response(200, b"ok", _TEXT)
        lines.append(f"{self.name} check {'failed' if failed else 'passed'}\n")
        return Response(failed or 200, "\n".join(lines).encode(), _TEXT)
