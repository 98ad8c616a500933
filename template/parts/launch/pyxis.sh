
# Add mounts for data outside the project's folder, separated by commas.
image={{ container_image }}
container=(--container-image="$image" --container-mounts="$PWD:$PWD" --container-workdir="$PWD")
