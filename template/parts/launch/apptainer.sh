
# Add --bind for data outside the project's folder, or export APPTAINER_BIND.
image={{ container_image }}
container=(apptainer exec --nv --bind "$PWD" --pwd "$PWD" "$image")
