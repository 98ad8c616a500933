
# Add --bind for data outside the project's folder, or export APPTAINER_BIND.
# {% include "parts/launch/commit.sh" %}
image={{ container_image }}
container=(apptainer exec {{ {"nvidia": "--nv ", "amd": "--rocm "}[gpu_vendor] if gpus_per_node else "" }}--bind "$PWD" ${HF_HOME:+--bind "$HF_HOME"} --env PROJECT_COMMIT="$PROJECT_COMMIT" --pwd "$PWD" "$image")
