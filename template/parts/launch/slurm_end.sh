# The program makes this file when it was told to stop before the end, and has saved.
export REQUEUE_FILE=$PWD/.requeue-$run
rm -f "$REQUEUE_FILE"
# A line for each start since the last save, at which the program deletes this file.
starts=$REQUEUE_FILE.starts
((${SLURM_RESTART_COUNT:-0})) || rm -f "$starts"
hostname >>"$starts"

# Runs "$@" in the background, because bash runs a trap only while it waits.
attempt() {
    ((told == 0)) || return 1
    "$@" &
    srun_pid=$!
    while kill -0 "$srun_pid" 2>/dev/null; do
        wait "$srun_pid" || true
    done
    wait "$srun_pid"
}

# SLURM itself takes SlurmdTimeout, often 300 s, to notice that a node is lost. Without any answer the question failed.
silent_nodes() {
    local answers
    answers=$(timeout --kill-after=5 60 srun --overlap printenv SLURMD_NODENAME 2>/dev/null) || true
    [[ ! $answers ]] || comm -23 <(scontrol show hostnames "$SLURM_JOB_NODELIST" | sort) <(sort <<<"$answers")
}

status=0
{ attempt "${prepare[@]}" && attempt "${train[@]}"; } || status=$?

# What may be better next time; an error of the program's own is not.
reason=""
if [[ -e $REQUEUE_FILE ]]; then
    reason="it was told to stop, and has saved"
elif ((status != 0 && told == 1)); then
    reason="it was told to stop before it could save"
elif ((status != 0)) && silent=$(silent_nodes) && [[ $silent ]]; then
    reason="no answer from ${silent//$'\n'/, }"
fi
rm -f "$REQUEUE_FILE"
if [[ $reason ]] && ((${SLURM_RESTART_COUNT:-0} >= 20)); then
    echo "$reason; requeued 20 times already: not again. Go on with RUN=$run sbatch ..." >&2
elif [[ $reason && -e $starts ]] && (($(wc -l <"$starts") >= 3)); then
    echo "$reason; three starts have saved nothing: not again. Go on with RUN=$run sbatch ..." >&2
    status=93
elif [[ $reason ]]; then
    # SLURM requeues the job itself when it notices. Before, the job would lose its claim on GPUs (SLURM 22.05).
    [[ ! ${silent:-} ]] || { echo "$reason: waiting until SLURM notices" >&2 && sleep 900; }
    echo "$reason: requeued" >&2
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
