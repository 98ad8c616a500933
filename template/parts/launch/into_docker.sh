export HF_HOME=${HF_HOME:-$PWD/data/huggingface} # where files fetched by name stay
mkdir -p "$HF_HOME"
# Keys and places of services, proxies, and the user's variables of the network.
passed=()
for name in $(compgen -e | grep -E '^({{ users_variables }})_|_(proxy|PROXY)$' || true); do
    passed+=(--env "$name")
done
# Where docker runs without root, the root of its containers is this user.
user=$(id -u):$(id -g)
if docker info 2>/dev/null | grep -E '^ *rootless(: true)?$' >/dev/null; then
    user=0:0
fi
# GPUs talk through shared memory, of which a container has 64 MB unless it shares the host's.
