# {{ grace_seconds }} s before the time limit, or at half of a short limit, the first node is told to save and end; its ranks tell
# the others.
save=$((limit > {{ 2 * grace_seconds }} ? {{ grace_seconds }} : limit / 2))
alarm() {
    sleep "$1" &
    wait "$!" && kill -"$2" $$
}
{
    trap 'kill "$!"; exit' TERM
    alarm "$((limit - save))" USR1 && alarm "$((save * 9 / 10))" ALRM
} &
timer=$!
trap 'told=1; kill -USR1 "$child" 2>/dev/null || true' USR1 USR2
# Ranks that hang do not save: they are ended in time, or the scheduler would end the job for good.
trap 'echo "the time limit comes: what still runs is ended" >&2; kill -KILL "$child" 2>/dev/null || true' ALRM
# INT and TERM come from the scheduler, and come again: somebody cancels the job, or the time is over. Ranks save, and the job
# does not come back unless it was told to stop before.
cancelled=0
trap '((told == 1)) || cancelled=1; told=1; kill -USR1 "$child" 2>/dev/null || true' INT TERM
