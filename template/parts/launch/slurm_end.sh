begin_start "$PWD/.job-$job"
# Whoever ends the job may grant its ranks a save.
trap 'wait; rm -rf "$JOB_FOLDER"' EXIT

# SLURM itself takes SlurmdTimeout, often 300 s, to notice that a node is lost. Without any answer the question failed.
silent_nodes() {
    local answers
    answers=$(timeout --kill-after=5 60 srun --overlap printenv SLURMD_NODENAME 2>/dev/null) || true
    [[ ! $answers ]] || comm -23 <(scontrol show hostnames "$SLURM_JOB_NODELIST" | sort) <(sort <<<"$answers")
}

if attend "${prepare[@]}"; then
    attend "${train[@]}" || true
fi
look_back
if [[ $reason ]]; then
    trap - EXIT # the next start counts on
    silent=""
    ((saved == 1 || told == 1)) || silent=$(silent_nodes)
    # SLURM requeues the job itself when it notices. Before, the job would lose its claim on GPUs (SLURM 22.05).
    [[ ! $silent ]] || { echo "no answer from ${silent//$'\n'/, }: waiting until SLURM notices" >&2 && sleep 900; }
    echo "$reason: requeued" >&2
    scontrol requeue "$SLURM_JOB_ID"
elif ((status != 0)) && [[ -e $JOB_FOLDER/RUN ]]; then
    echo "go on from the last save: RUN=$run sbatch ..." >&2
fi
exit "$status"
