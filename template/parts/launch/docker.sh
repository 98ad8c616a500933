
image={{ container_image }}
if ! docker image inspect "$image" >/dev/null 2>&1 && docker info >/dev/null 2>&1 && ! docker pull "$image"; then
    echo "error: no image $image on $HOSTNAME: build it there ({{ launch_folder }}/Dockerfile), or: docker save $image | ssh $HOSTNAME docker load" >&2
    exit 2
fi
# {% include "parts/launch/into_docker.sh" %}
container=(
    docker run --rm --init {{ gpu_options }}{{ "--device /dev/infiniband " if with_rdma else "" }}--network host --ipc host --ulimit memlock=-1
    --user "$user" --env HOME=/tmp --env USER="$(id -un)" --volume "$PWD:$PWD" --workdir "$PWD"
    --env PROGRAM --env DEBUG --env NNODES --env NPROC --env HEAD --env PORT --env JOB --env NODE_RANK --env NODE_ADDRESS{{ ' --env JOB_FOLDER' if checkpoint else '' }}
    --env PROJECT_COMMIT --env HF_HOME --volume "$HF_HOME:$HF_HOME" "${passed[@]}"
    "$image"
)
