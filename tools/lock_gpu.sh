#!/usr/bin/env bash
# Writes the lock of a GPU image: every package, pinned, with hashes. Usage: tools/lock_gpu.sh UV REQUIREMENTS.in REQUIREMENTS.txt [DATE]
# With DATE, packages that the source leaves open are those of that time. vLLM leaves most of what it needs open: of an older one, what its
# authors tested then is what runs. Packages that the source pins are ours, and may be newer.
set -euo pipefail
uv=$1 source=$2 target=$3 date=${4:-}
of_its_time=()
if [ -n "$date" ]; then
  of_its_time=(--exclude-newer "$date")
  for pin in $(grep -oE '^[A-Za-z0-9_.-]+==' "$source" | tr -d '='); do
    of_its_time+=(--exclude-newer-package "$pin=2100-01-01")
  done
fi
"$uv" pip compile --quiet --no-config --generate-hashes --no-header --no-annotate \
  --default-index https://pypi.org/simple --python-version 3.11.13 --python-platform x86_64-manylinux_2_28 \
  "${of_its_time[@]}" "$source" -o "$target.new"
{
  echo "# Made by \`make lock-gpu\` from $source: all that a GPU image needs, with hashes."
  cat "$target.new"
} > "$target"
rm "$target.new"
