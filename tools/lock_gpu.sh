#!/usr/bin/env bash
# Writes requirements.txt: every package of the GPU image, pinned. Usage: tools/lock_gpu.sh UV REQUIREMENTS.in REQUIREMENTS.txt
# vLLM leaves most of what it needs open; packages of its own time (its release was in September 2025) are taken, so that what its
# authors tested is what runs. Packages that requirements/gpu.in pins are ours, and newer.
set -euo pipefail
uv=$1 source=$2 target=$3
newer=()
for pin in $(grep -oE '^[A-Za-z0-9_.-]+==' "$source" | tr -d '='); do
  newer+=(--exclude-newer-package "$pin=2100-01-01")
done
"$uv" pip compile --quiet --no-config --generate-hashes --no-header --no-annotate \
  --default-index https://pypi.org/simple --python-version 3.11.13 --python-platform x86_64-manylinux_2_28 \
  --exclude-newer 2025-10-31 "${newer[@]}" "$source" -o "$target.new"
{
  echo "# Made by \`make lock-gpu\` from requirements/gpu.in: the GPU image of the competition (profile gpu), all that it needs, with hashes."
  cat "$target.new"
} > "$target"
rm "$target.new"
