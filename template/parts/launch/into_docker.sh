export HF_HOME=${HF_HOME:-$PWD/data/huggingface} # where files fetched by name stay
mkdir -p "$HF_HOME"
# Keys and places of services, proxies, and the user's variables of the network.
mapfile -t passed < <(compgen -e | grep -E '^({{ users_variables }})_|_(proxy|PROXY)$' | sed 's/^/--env\n/')
# Where docker runs without root, the root of its containers is this user.
user=$(id -u):$(id -g)
(($(docker info 2>/dev/null | grep -cE '^ *rootless(: true)?$') == 0)) || user=0:0
# GPUs talk through shared memory, of which a container has 64 MB unless it shares the host's.
