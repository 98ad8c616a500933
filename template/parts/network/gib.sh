# Google's values for this network come with the image and change with it.
set +u
builtin source /usr/local/gib/scripts/set_nccl_env.sh
set -u
