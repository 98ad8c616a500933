
image={{ container_image }}
if ! docker image inspect "$image" >/dev/null 2>&1 && docker info >/dev/null 2>&1 && ! docker pull "$image"; then
    echo "error: no image $image on $HOSTNAME: build it there ({{ launch_folder }}/Dockerfile), or: docker save $image | ssh $HOSTNAME docker load" >&2
    exit 2
fi
export HF_HOME=${HF_HOME:-$PWD/data/huggingface} # where files fetched by name stay
mkdir -p "$HF_HOME"
# Keys and places of services, proxies, and the user's variables of the network.
passed=()
for name in $(compgen -e | grep -E '^(HF|MLFLOW|WANDB|(TORCH_)?NCCL|UCX|GLOO)_|_(proxy|PROXY)$' || true); do
    passed+=(--env "$name")
done
# GPUs talk through shared memory, of which a container has 64 MB unless it shares the host's.
container=(
    docker run --rm --init {{ gpu_options }}{{ "--device /dev/infiniband " if with_rdma else "" }}--network host --ipc host --ulimit memlock=-1
    --user "$(id -u):$(id -g)" --env HOME=/tmp --env USER="$(id -un)" --volume "$PWD:$PWD" --workdir "$PWD"
    --env PROGRAM --env DEBUG --env NNODES --env NPROC --env HEAD --env PORT --env JOB --env NODE_RANK{{ ' --env JOB_FOLDER' if checkpoint else '' }}
    --env PROJECT_COMMIT --volume "$HF_HOME:$HF_HOME" "${passed[@]}"
    "$image"
)
