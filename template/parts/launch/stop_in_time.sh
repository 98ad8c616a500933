first=$!
# {{ grace_seconds }} s before the time limit the first node is told to save and end; its ranks tell the others.
{
    left=$(({{ time_limit_seconds - grace_seconds }} - SECONDS)) # the data took their time, too
    sleep "$((left > 0 ? left : 0))"
    kill -USR1 "$first"
} &
trap 'kill -USR1 "$first"' USR1 TERM
while kill -0 "$first" 2>/dev/null; do
    wait "$first" || true
done
status=0
wait "$first" || status=$?
