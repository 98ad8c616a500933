
# Add mounts for data outside the project's folder, separated by commas.
image={{ '"$PWD"/' if container_image | regex_search('^[^/.~].*[.](sqsh|squashfs)$') else '' }}{{ container_image }}
container=(--container-image="$image" --container-mounts="$PWD:$PWD" --container-workdir="$PWD")
