
# GPUs talk through shared memory, of which a container has 64 MB unless it shares the host's.
container=(
    docker run --rm --init {{ gpu_options }}{{ "--device /dev/infiniband " if with_rdma else "" }}--network host --ipc host --ulimit memlock=-1
    --user "$(id -u):$(id -g)" --env HOME=/tmp --env USER="$(id -un)" --volume "$PWD:$PWD" --workdir "$PWD"
    --env WANDB_API_KEY --env HF_TOKEN
    --env PROGRAM --env DEBUG --env NNODES --env NPROC --env HEAD --env PORT --env JOB --env NODE_RANK{{ ' --env JOB_FOLDER' if checkpoint else '' }}
    {{ container_image }}
)
