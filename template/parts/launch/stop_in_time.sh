# {{ grace_seconds }} s before the time limit, or at half of a short limit, the first node is told to save and end; its ranks tell
# the others.
{
    trap 'kill "$!"' TERM
    sleep "$((limit > {{ 2 * grace_seconds }} ? limit - {{ grace_seconds }} : limit / 2))" &
    wait "$!" && kill -USR1 $$
} &
timer=$!
trap 'told=1; kill -USR1 "$child" 2>/dev/null || true' USR1 USR2
# INT and TERM come from the scheduler, and come again: somebody cancels the job, or the time is over. Ranks save, and the job
# does not come back unless it was told to stop before.
cancelled=0
trap '((told == 1)) || cancelled=1; told=1; kill -USR1 "$child" 2>/dev/null || true' INT TERM
