#!/usr/bin/env bash
# Installs what tests/clusters needs from Debian or Ubuntu packages, as root. Without it those tests are skipped.
set -euo pipefail

packages=(slurm-wlm munge iproute2 openssh-server shellcheck)
missing=()
for package in "${packages[@]}"; do
    dpkg --status "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [[ ${missing[*]} ]]; then
    apt-get update --quiet
    # Without starting any service: the tests start their own, in folders of their own.
    DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install --quiet --yes --no-install-recommends "${missing[@]}"
fi
