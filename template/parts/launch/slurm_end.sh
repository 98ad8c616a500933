# The program leaves the marker when it was told to stop before the end and has saved. torchrun's status does not tell:
# it is 1 after a failure and after a save alike.
if [[ -e runs/$run/REQUEUE ]]; then
    if ((${SLURM_RESTART_COUNT:-0} < max_requeues)); then
        scontrol requeue "$SLURM_JOB_ID"
    else
        echo "requeued $max_requeues times already: not again. Go on with RUN=$run sbatch ..." >&2
    fi
fi
exit "$status"
