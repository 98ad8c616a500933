# What launch files and program tell each other about a job, in a folder{{ ' that all its nodes see' if clusters != ['local'] }}:
#
#   STARTS    a line for each start, and for the error that ended it; the program deletes the file when it saves
#   RUN       the program's: the name of the run
# {% if "starts" in watch %}
#   BEGUN     a line for each start: their number
# {% endif %}
#   END       the program's: its error, from the rank that failed first{{ "; then this rank's node" if "slurm" in clusters }}
#   AGAIN     a line for each failure after which another start seemed worth while
#   OPEN      the host of a start whose end nobody has looked at yet
# {% if "slurm" in clusters %}
#   NODES     a line for each failure of a node: its name
# {% endif %}
# {% if "kubernetes" in clusters %}
#   OVER      a pod's, when a mistake has ended the job
# {% endif %}
begin_start() {
    export JOB_FOLDER=$1
    mkdir -p "$JOB_FOLDER"
    rm -f "$JOB_FOLDER/END"
    [[ ! -e $JOB_FOLDER/OPEN ]] || echo "the start before, on $(<"$JOB_FOLDER/OPEN"), was ended from outside, or that host was lost" >&2
    echo "$HOSTNAME" >"$JOB_FOLDER/OPEN"
    echo "start on $HOSTNAME" >>"$JOB_FOLDER/STARTS"
# {% if "starts" in watch %}
    echo "$HOSTNAME" >>"$JOB_FOLDER/BEGUN"
# {% endif %}
}

# {% if "kubernetes" in clusters or "skypilot" in clusters %}
# Begins a start that has to look back for the one before, whose machine may be gone.
begin_or_give_up() {
    if [[ -d $1 ]]; then
        status=1
        look_back
        if [[ ! $reason ]]; then
            rm -rf "$1" || true
            exit 93
        fi
    fi
    begin_start "$1"
}

# {% endif %}
# Runs "$@" in the background, because bash runs a trap only while it waits. Its status is in `status`.
told=${told:-0} child="" status=0
attend() {
    status=1
    ((told == 0)) || return 1
    "$@" <&0 &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        wait "$child" || true
    done
    status=0
    wait "$child" || status=$?
    return "$status"
}

# Whether the error $1 is a mistake in config, data or surroundings, which would only come again.
is_mistake() { [[ $1 =~ ^(SystemExit|ConfigError|RankError):" " && $1 != "SystemExit: 75 in "* ]]; }

# {% if "kubernetes" in clusters or "skypilot" in clusters %}
# Whether this start has ended, by its `status` or by what a rank has noted, with such a mistake.
ended_by_mistake() { ((status == 2)) || is_mistake "$(cat "$JOB_FOLDER/END" 2>/dev/null)"; }

# {% endif %}
# {% if "slurm" in clusters and gpus_per_node %}
# Prints this node where the driver lists fewer GPUs than SLURM has given.
few_gpus() {
# {% if gpu_vendor == 'amd' %}
    command -v rocm_agent_enumerator >/dev/null || return 0
    (($(rocm_agent_enumerator | grep -c 'gfx[1-9]') >= NPROC)) || echo "$SLURMD_NODENAME"
# {% else %}
    command -v nvidia-smi >/dev/null || return 0
    (($(nvidia-smi --list-gpus | grep -c ^GPU) >= NPROC)) || echo "$SLURMD_NODENAME"
# {% endif %}
}

# {% endif %}
# {% if "slurm" in clusters %}
# Prints the nodes whose devices or disks are to blame for the error $1 of a rank on node $2; none where a program may be.
node_to_blame() {
# {% if gpus_per_node %}
    local device="CUDA|HIP" fault="ECC|[Nn][Vv][Ll]ink|hardware|unknown error|unavailable|not yet initialized|no (CUDA|ROCm)-capable"
    [[ ! $1 =~ ($device)" error: ".*($fault) ]] || echo "$2"
    # The rank sees too few GPUs: where the driver does, too, the cause is neither the program nor what it was given.
    if [[ $2 && $1 =~ ^RankError:" local rank "[0-9]+" needs GPU " ]]; then
        timeout --kill-after=5 60 srun --overlap bash -c "$(declare -f few_gpus); few_gpus" 2>/dev/null || true
    fi
# {% endif %}
# {% if "replicas" in watch %}
    [[ ! $1 =~ ^ReplicaError:.*" than most: rank "[0-9]+" on "([^,. ]+)[^,\ ]*". All were equal" ]] || echo "${BASH_REMATCH[1]}"
# {% endif %}
    # EIO, ENODEV, EROFS, ESTALE
    [[ ! $1 =~ ^OSError:" [Errno "(5|19|30|116)"]" ]] || echo "$2"
}

# {% endif %}
# Sets `reason` to why another start may end better than the one that ended with `status`; empty where it may not.
# {% if "slurm" in clusters %}
# Sets `blamed` to the node whose devices or disks the error tells of.
# {% endif %}
look_back() {
    local error="" limit=""{{ ' node=""' if "slurm" in clusters }}
    reason="" saved=0{{ ' blamed=""' if "slurm" in clusters }}
    rm -f "$JOB_FOLDER/OPEN"
    ((status != 0)) || return 0
# {% if tools %}
    # A tool saves nothing that another start could go on from.
    [[ ${PROGRAM:-} != "-m tools."* ]] || return 0
# {% endif %}
    touch "$JOB_FOLDER/STARTS" "$JOB_FOLDER/AGAIN"
    [[ ! -e $JOB_FOLDER/END ]] || error=$(<"$JOB_FOLDER/END")
# {% if "slurm" in clusters %}
    [[ $error != *$'\n'* ]] || node=${error##*$'\n'} error=${error%%$'\n'*}
    blamed=$(node_to_blame "$error" "$node")
# {% endif %}
    {{ "[[ $blamed ]] || " if "slurm" in clusters }}! is_mistake "$error" || return 0
    if [[ $error == "SystemExit: 75 in "* ]]; then
        saved=1 reason="it was told to stop, and has saved"
        return 0
    elif ((told == 1)); then
        reason="it was told to stop before it could save"
    else
        reason=${error:-status $status, and no rank has noted an error}
        echo "$error" >>"$JOB_FOLDER/STARTS"
        echo "$reason" >>"$JOB_FOLDER/AGAIN"
    fi
    if [[ $error{{ " && ! $blamed" if "slurm" in clusters }} ]] && (($(grep -cxF -- "$error" "$JOB_FOLDER/STARTS") > 1)); then
        limit="the same error has come twice, without a save between"
    elif (($(grep -c "^start on " "$JOB_FOLDER/STARTS") >= 3)); then
        limit="three starts have saved nothing"
    elif (($(wc -l <"$JOB_FOLDER/AGAIN") > 20)); then
        limit="it has failed more than 20 times"
    fi
    if [[ $limit ]]; then
        echo "$reason: not again, since $limit" >&2
        reason="" status=93
    fi
}
# {% if "local" in clusters or "ssh" in clusters %}

# Runs `start_once`, and again after a crash: $1 is the folder of the job, $2 the seconds between two starts, $3 the launch file.
same_run=() # the argument with which a start continues the run of the start before
start_again() {
    trap 'rm -rf "$JOB_FOLDER" || true' EXIT # a file server keeps what is open: no job fails by that
    while begin_start "$1" || exit; do
        start_once
        look_back
        [[ ! -e $JOB_FOLDER/RUN ]] || same_run=(run.name="$(<"$JOB_FOLDER/RUN")")
        if ((told == 1 || saved == 1)) || [[ ! $reason ]]; then
            break
        fi
        echo "$reason: starts again" >&2
        sleep "$2"
    done
    ((status == 0)) || [[ ! ${same_run[*]} ]] || echo "go on with this run: $3 ${same_run[*]} ..." >&2
    exit "$status"
}
# {% endif %}
