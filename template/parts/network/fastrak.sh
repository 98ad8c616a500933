# Google's values for this network come with the image and change with it.
export NCCL_LIB_DIR=/var/lib/tcpxo/lib64
[[ -r $NCCL_LIB_DIR/nccl-env-profile.sh ]] || { echo "$HOSTNAME has no $NCCL_LIB_DIR, Google's library for this network" >&2 && exit 2; }
set +u
export LD_LIBRARY_PATH=$NCCL_LIB_DIR:${LD_LIBRARY_PATH:-}
builtin source "$NCCL_LIB_DIR/nccl-env-profile.sh"
set -u
