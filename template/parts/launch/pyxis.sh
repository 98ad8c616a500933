
# Add mounts for data outside the project's folder, separated by commas.
# {% include "parts/launch/commit.sh" %}
export HF_HOME=${HF_HOME:-$PWD/data/huggingface} # where files fetched by name stay
mkdir -p "$HF_HOME"
image={{ '"$PWD"/' if container_image | regex_search('^[^/.~].*[.](sqsh|squashfs)$') else '' }}{{ container_image }}
container=(--container-image="$image" --container-mounts="$PWD:$PWD,$HF_HOME:$HF_HOME" --container-workdir="$PWD")
