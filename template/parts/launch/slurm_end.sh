. {{ launch_folder }}/again.sh
. {{ launch_folder }}/slurm_nodes.sh
begin_start "$PWD/.job-$job"
# A time limit of hardly more than what --signal keeps for the save would have each start stop at once, and come back.
left=$(seconds_left) || true
short=$((${left:-86400} < {{ grace_seconds + 60 }}))
((short == 0)) || echo "note: the last {{ grace_seconds }} s are for a save: ask for more time, or sbatch --signal=B:USR1@60 ..." >&2
keep_time
trap end_with_slurm TERM

if attend "${prepare[@]}"; then
    attend "${train[@]}" || true
fi
look_back
if ((short == 1 && told == 1 && SECONDS < 60)) && [[ $reason ]]; then
    echo "$reason: not again, since the time limit leaves no time for the training" >&2
    reason="" status=93
fi
silent=""
if [[ $reason ]]; then
    again=1
    ((saved == 1 || told == 1)) || silent=$(silent_nodes)
    # SLURM requeues the job itself when SLURM notices the loss. A job requeued earlier would lose its claim on GPUs (SLURM 22.05).
    [[ ! $silent ]] || { echo "no answer from ${silent//$'\n'/, }: waiting until SLURM notices" >&2 && wait_for_slurm; }
    trap "" TERM # comes with the requeue
    look_for_worn_node "$blamed" "$silent" || true
    if scontrol requeue "$id"; then
        echo "$reason: requeued" >&2
        leave_out
        exit "$status"
    fi
    echo "$reason: but SLURM does not requeue this job" >&2
    again=0
fi
if ((status != 0)) && [[ -e $JOB_FOLDER/RUN ]]; then
    echo "go on with this run: RUN=$run sbatch ..." >&2
fi
exit "$status"
