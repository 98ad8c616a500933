# Google's values for this network come with the image and change with it.
set +u
export NCCL_LIB_DIR=/var/lib/tcpxo/lib64
export LD_LIBRARY_PATH=$NCCL_LIB_DIR:${LD_LIBRARY_PATH:-}
builtin source "$NCCL_LIB_DIR/nccl-env-profile.sh"
set -u
