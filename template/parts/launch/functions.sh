# Takes over the KEY=VALUE lines of the file $1 as they stand, as NCCL does: nothing in them is interpreted, and what
# the environment already holds wins.
load_env() {
    local line
    while IFS= read -r line || [[ $line ]]; do
        line=${line%$'\r'} # of an editor on Windows
        if [[ $line == [A-Z]*=* && ! -v ${line%%=*} ]]; then
            export "${line?}"
        fi
    done <"$1"
}

if [[ ${DEBUG:-0} == 1 ]]; then
    load_env {{ launch_folder }}/nccl.debug.env
fi

# Sets NCCL up for this network.
network_env() {
# {% if network in ("gib", "fastrak") %}
# {% filter indent(4, first=true) %}
# {% include "parts/network/" ~ network ~ ".sh" %}
# {% endfilter %}
# {% endif %}
    load_env {{ launch_folder }}/nccl.env
# {% if gpus_per_node and gpu_vendor == 'amd' %}
    # MIOpen keeps what it compiles and finds in databases with locks, which shared file systems often lack: on the node.
    export MIOPEN_USER_DB_PATH=${MIOPEN_USER_DB_PATH:-/tmp/miopen-$UID}
    export MIOPEN_CUSTOM_CACHE_DIR=${MIOPEN_CUSTOM_CACHE_DIR:-$MIOPEN_USER_DB_PATH}
    # Or PyTorch turns images whose channels come last around before each convolution, and back.
    export PYTORCH_MIOPEN_SUGGEST_NHWC=${PYTORCH_MIOPEN_SUGGEST_NHWC:-1}
# {% endif %}
}

# Prints how many threads each of $1 processes may use: torchrun would give them one. nproc counts the cores that this
# job may run on, not those of the machine.
threads_for() {
    local threads=$(($(nproc) / $1))
    echo $((threads > 0 ? threads : 1))
}
