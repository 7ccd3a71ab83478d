"""A `systemctl` for machines without systemd: it knows a handful of words, and runs what the package's units say."""

from __future__ import annotations

SYSTEMCTL = """#!/bin/sh
alive() { [ "$pid" ] && grep -qs "^State:.[^Z]" "/proc/$pid/status"; } # nobody reaps what has ended
verb=; units=
for word; do
    case $word in -*) continue ;; esac
    if [ "$verb" ]; then units="$units ${word%.service}"; else verb=$word; fi
done
for unit in $units; do
    pid=$(cat "/run/$unit.pid" 2>/dev/null)
    case $verb in
    stop | restart | disable)
        alive && kill -TERM "$pid"
        while alive; do sleep 0.1; done
        ;;
    esac
    case $verb in
    start | restart)
        alive && continue
        command=$(sed -n 's/^ExecStart=//p' "/usr/lib/systemd/system/$unit.service")
        setsid sh -c "echo \\$\\$ > /run/$unit.pid; exec $command" >>"/var/log/$unit.log" 2>&1 </dev/null &
        ;;
    esac
done
exit 0
"""
