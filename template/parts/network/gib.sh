# Google's values for this network come with the image and change with it.
[[ -r /usr/local/gib/scripts/set_nccl_env.sh ]] || { echo "$HOSTNAME has no /usr/local/gib, Google's library for this network" >&2 && exit 2; }
set +u
builtin source /usr/local/gib/scripts/set_nccl_env.sh
set -u
