
# Add mounts for data outside the project's folder, separated by commas.
# {% include "parts/launch/commit.sh" %}
mkdir -p "${HF_HOME:=$PWD/data/huggingface}" && export HF_HOME # so that files fetched by name stay
image={{ '"$PWD"/' if container_image | regex_search('^[^/.~].*[.](sqsh|squashfs)$') else '' }}{{ container_image }}
container=(--container-image="$image" --container-mounts="$PWD:$PWD,$HF_HOME:$HF_HOME" --container-workdir="$PWD")
