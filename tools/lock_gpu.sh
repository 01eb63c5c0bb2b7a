#!/usr/bin/env bash
# Writes the lock of a GPU image: every package, pinned, with hashes. Usage: tools/lock_gpu.sh UV TARGET SOURCE [OPTION OF UV ...]
# Pins stay as they are unless --upgrade or --upgrade-package NAME is given.
# BEFORE=DATE in the environment: packages that the source leaves open are those of that time. vLLM leaves most of what it needs open: of an
# older one, what its authors tested then is what runs. Packages that the source pins are ours, and may be newer.
set -euo pipefail
uv=$1 target=$2 source=$3
of_its_time=()
if [ -n "${BEFORE:-}" ]; then
  of_its_time=(--exclude-newer "$BEFORE")
  for pin in $(grep -oE '^[A-Za-z0-9_.-]+==' "$source" | tr -d '='); do
    of_its_time+=(--exclude-newer-package "$pin=2100-01-01")
  done
fi
# Of the weights that pyproject.toml names, requirements/weights.txt has the packages, and nothing uses what they ask for.
apart=()
[ "$source" != pyproject.toml ] || apart=(sentence-transformers $(sed -nE 's/^([a-z0-9-]+)==.*/\1/p' requirements/weights.txt))
cp "$target" "$target.new"
"$uv" pip compile --quiet --no-config --generate-hashes --no-header --no-annotate \
  --default-index https://pypi.org/simple --python-version 3.11.13 --python-platform x86_64-manylinux_2_28 \
  "${apart[@]/#/--no-emit-package=}" --override <(sed -nE 's/^override-dependencies = \["(.*)"\]/\1/p' pyproject.toml) \
  "${of_its_time[@]}" "${@:4}" "$source" -o "$target.new" > /dev/null
{
  echo "# Made by \`make lock-gpu\` from $source: all that a GPU image needs, with hashes."
  cat "$target.new"
} > "$target"
rm "$target.new"
