if [[ -e $REQUEUE_FILE ]]; then
    rm -f "$REQUEUE_FILE"
    if ((${SLURM_RESTART_COUNT:-0} < max_requeues)); then
        scontrol requeue "$SLURM_JOB_ID"
    else
        echo "requeued $max_requeues times already: not again. Go on with RUN=$run sbatch ..." >&2
    fi
fi
exit "$status"
