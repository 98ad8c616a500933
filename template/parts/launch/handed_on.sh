# The user's variables go along, but no secrets and no addresses with a password: everybody can read a process's arguments.
handed_on=()
for name in $(compgen -e | grep -E '^(HF|MLFLOW|WANDB|(TORCH_)?NCCL|UCX|GLOO|FI{{ '|APPTAINER|SINGULARITY' if container == 'apptainer' }})_|^LD_LIBRARY_PATH${{ '|^PROJECT_COMMIT$' if container == 'docker' }}|_(proxy|PROXY)$' |
    grep -Ev 'KEY|PASSWORD|SECRET|TOKEN' || true); do
    [[ ${!name} == *://*:*@* ]] || handed_on+=("$name=${!name}")
done
