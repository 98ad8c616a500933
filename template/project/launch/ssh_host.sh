#!/usr/bin/env bash
# launch/ssh.sh starts this on each host: it runs the command "$@", and ends it when the connection ends. sshd alone would
# let it run on.
set -euo pipefail

exec 3<&0 </dev/null
"$@" 3<&- &
command=$!
{
    cat <&3 >/dev/null
    kill -TERM "$command" 2>/dev/null
} &
watcher=$!
status=0
wait "$command" || status=$?
kill "$watcher" 2>/dev/null || true
exit "$status"
