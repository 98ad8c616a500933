
# Add --bind for data outside the project's folder, or export APPTAINER_BIND.
image={{ container_image }}
container=(apptainer exec {{ {"nvidia": "--nv ", "amd": "--rocm "}[gpu_vendor] if gpus_per_node else "" }}--bind "$PWD" --pwd "$PWD" "$image")
