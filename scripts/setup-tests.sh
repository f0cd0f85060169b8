#!/usr/bin/env bash
# Installs what the out-of-process tests need: four folders of npm packages and a Python
# environment in .venv. Does nothing where all is there already. On a Debian machine it also
# installs Node and Python themselves if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

# vitest 4, which runs the public suite, needs at least this; Debian has it from release 13 on.
NODE_MAJOR=20

node_is_new_enough() {
  command -v npm >/dev/null && command -v node >/dev/null &&
    [ "$(node -p 'process.versions.node.split(".")[0]')" -ge "$NODE_MAJOR" ]
}

missing=()
node_is_new_enough || missing+=(nodejs npm)
# Debian packs ensurepip apart: there `python3` alone cannot make an environment with pip in it.
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3 python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "error: please install ${missing[*]} (node at least $NODE_MAJOR)" >&2
    exit 1
  fi
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
  node_is_new_enough || {
    echo "error: node $NODE_MAJOR or newer is needed, this system offers $(node --version)" >&2
    exit 1
  }
fi

# Nobody else needs these: without one of them its tests say that they are skipped.
install_or_warn() {
  local program=$1 package=$2 tests=$3
  if PATH=$PATH:/usr/sbin command -v "$program" >/dev/null; then return; fi
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    apt-get update &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$package" ||
      echo "warning: $package cannot be installed, $tests will be skipped" >&2
  else
    echo "warning: please install $package, $tests will be skipped" >&2
  fi
}
install_or_warn strace strace tests/syscalls
install_or_warn nginx nginx-light tests/cache
install_or_warn faketime faketime tests/machine/test_clock.py

# A copy of the list that was installed tells whether it has changed since.
up_to_date() { cmp -s "$1" "$2"; }

for folder in conformance examples/collab tests/editing tests/injection; do
  lock=$folder/package-lock.json
  stamp=$folder/node_modules/.installed-lock.json
  if ! up_to_date "$lock" "$stamp"; then
    # No package's own scripts: none of these needs one.
    npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund
    cp "$lock" "$stamp"
  fi
done

requirements=tests/python/requirements.txt
stamp=.venv/installed-requirements.txt
if ! up_to_date "$requirements" "$stamp"; then
  rm -rf .venv
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$stamp"
fi
