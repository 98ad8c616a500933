# {{ grace_seconds }} s before the time limit the first node is told to save and end; its ranks tell the others.
{
    trap 'kill "$!"' TERM
    sleep "$((limit - {{ grace_seconds }}))" &
    wait "$!" && kill -USR1 $$
} &
timer=$!
trap 'told=1; kill -USR1 "$child" 2>/dev/null || true' USR1 TERM
