#!/usr/bin/env bash
# Installs the browser that tests/web drives, from Debian or Ubuntu packages, as root. Without it those tests are skipped.
set -euo pipefail

if ! command -v chromium >/dev/null; then
    apt-get update --quiet
    DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends chromium
fi
