. {{ launch_folder }}/again.sh
. {{ launch_folder }}/slurm_nodes.sh
begin_start "$PWD/.job-$job"
# Whoever ends the job may grant its ranks a save.
trap 'wait; rm -rf "$JOB_FOLDER"' EXIT
trap end_with_slurm TERM

if attend "${prepare[@]}"; then
    attend "${train[@]}" || true
fi
look_back
silent=""
if [[ $reason ]]; then
    trap - EXIT # the next start counts on
    ((saved == 1 || told == 1)) || silent=$(silent_nodes)
    # SLURM requeues the job itself when it notices. Before, the job would lose its claim on GPUs (SLURM 22.05).
    [[ ! $silent ]] || { echo "no answer from ${silent//$'\n'/, }: waiting until SLURM notices" >&2 && sleep 900; }
    trap "" TERM # comes with the requeue
    look_for_worn_node "$blamed" "$silent" || true
    echo "$reason: requeued" >&2
    scontrol requeue "$SLURM_JOB_ID"
    leave_out
elif ((status != 0)) && [[ -e $JOB_FOLDER/RUN ]]; then
    echo "go on from the last save: RUN=$run sbatch ..." >&2
fi
exit "$status"
