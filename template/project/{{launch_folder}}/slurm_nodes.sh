# shellcheck shell=bash
# Read by the batch scripts: the job's number and time, its lost nodes, and the nodes that the next start leaves out.

# The plain number of an array's task may mean the whole array; this form is the task's own.
id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
id=${id:-$SLURM_JOB_ID}

# Prints the seconds that are left of the job's time: SLURM says D-HH:MM:SS, or less; nothing where there is no limit.
seconds_left() {
    squeue --noheader --jobs="$id" --format=%L |
        awk -F'[-:]' '/^[0-9]/ { split("1 60 3600 86400", unit, " ")
            for (i = 0; i < NF; i++) left += $(NF - i) * unit[i + 1]
            print left; exit }'
}

# Sends USR2 to the script 20 s before the time limit; never where there is no limit.
watch_limit() {
    local left
    until left=$(seconds_left) && ((${left:-0} <= 20)); do
        read -rt "$((${left:-80} - 20))" <> <(:) || true # waits, without a process to be ended
    done
    [[ ! $left ]] || kill -USR2 $$
}

# SLURM ends a job for good at its time limit. What hangs is ended before, so that the job can be requeued.
keep_time() {
    trap 'told=1; echo "the time limit comes: what still runs is ended" >&2; kill -KILL "$child" 2>/dev/null || true' USR2
    watch_limit &
    timer=$!
    disown
    trap leave EXIT
}

# Ends the timer, and forgets the job unless the next start counts on.
again=0
leave() {
    kill -KILL "$timer" 2>/dev/null || true
    ((again == 0)) || return 0
    # Whoever ends the job may grant its ranks a save. A file server may keep what is open: no job fails by that.
    wait
    rm -rf "$JOB_FOLDER" || true
}

# SLURM itself takes SlurmdTimeout, often 300 s, to notice that a node is lost. Without any answer the question failed.
silent_nodes() {
    local answers
    answers=$(timeout --kill-after=5 60 srun --overlap printenv SLURMD_NODENAME 2>/dev/null) || true
    [[ ! $answers ]] || comm -23 <(scontrol show hostnames "$SLURM_JOB_NODELIST" | sort) <(sort <<<"$answers")
}

# The time limit ends the wait, too; the signal before the limit does not.
wait_for_slurm() {
    trap "" USR1
    sleep 900 &
    child=$!
    wait "$child" || true
}

# Prints a node of $1 if another one like it is free that is neither in $1 nor in $2, lists with a node on each line.
replaceable_node() {
    sinfo --noheader --Node --partition="$SLURM_JOB_PARTITION" --format="%N %T %c %m %G %f" |
        awk -v worn=" ${1//$'\n'/ } " -v taken=" ${2//$'\n'/ } " '
            { node = $1; state = $2; $1 = $2 = ""; listed = " " node " " }
            index(worn, listed) { kinds[node] = $0 }
            !index(worn taken, listed) && state ~ /^(idle|mixed)~?$/ { free[$0] }
            END { for (node in kinds) if (kinds[node] in free) { print node; exit } }'
}

# Notes the nodes "$@" that have failed in this start. Sets `exclude` to those that the next start does without, if one has
# failed twice and another like it is free: else the job could wait for ever.
exclude=""
look_for_worn_node() {
    local out left="" worn node
    printf '%s\n' "$@" | sed '/^$/d' | sort --unique >>"$JOB_FOLDER/NODES"
    out=$(squeue --noheader --jobs="$id" --format=%x) || return 0
    [[ $out != "(null)" ]] || out=""
    [[ ! $out ]] || left=$(scontrol show hostnames "$out")
    worn=$(comm -23 <(sort "$JOB_FOLDER/NODES" | uniq --repeated) <(sort <<<"$left"))
    [[ $worn ]] || return 0
    node=$(replaceable_node "$worn" "$left"$'\n'"$(scontrol show hostnames "$SLURM_JOB_NODELIST")")
    if [[ $node ]]; then
        exclude=${out:+$out,}$node
        echo "$node has failed twice: left out of the next start" >&2
    else
        echo "${worn//$'\n'/, } has failed twice, but no other node like it is free" >&2
    fi
}

# Only a job that waits can be changed: after its requeue, while SLURM ends this script.
leave_out() {
    [[ $exclude ]] || return 0
    for _ in {1..10}; do
        ! scontrol update JobId="$id" ExcNodeList="$exclude" || break
        sleep 1
    done
}

# SLURM ends this script: somebody has ended the job, or SLURM has noticed that a node is lost, and requeues the job.
end_with_slurm() {
    local lost
    trap "" TERM
    lost=$(sinfo --noheader --Node --nodes="$SLURM_JOB_NODELIST" --states=down --format=%N) || true
    if [[ $lost ]]; then
        again=1
        look_for_worn_node "${blamed:-}" "${silent:-}" "$lost" || true
        leave_out
    else
        kill -USR1 "$child" 2>/dev/null || true # the ranks do not hear of a signal to the batch script alone
    fi
    exit 1
}
