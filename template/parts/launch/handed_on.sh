# The user's variables go along, but no secrets and no addresses with a password: everybody can read a process's arguments.
handed_on=()
for name in $(compgen -e | grep -E '^({{ users_variables }}{{ '|APPTAINER|SINGULARITY' if container == 'apptainer' }})_|^(SCRATCH|WORK|LD_LIBRARY_PATH{{ {'none': '|PYTHONPATH', 'docker': '|PROJECT_COMMIT'}[container] | default('') }})$|_(proxy|PROXY)$' |
    grep -Ev 'KEY|PASSWORD|SECRET|TOKEN' || true); do
    [[ ${!name} == *://*:*@* ]] || handed_on+=("$name=${!name}")
done
