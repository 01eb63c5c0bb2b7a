#!/usr/bin/env bash
# Writes requirements-cpu.txt and the locks that are installed beside it, each with the hashes of its packages.
# Usage: tools/lock_cpu.sh UV [OPTION OF UV ...]     Pins stay as they are unless --upgrade or --upgrade-package NAME is given.
#
# Install every lock with `pip install --no-deps --require-hashes -r FILE`: a lock names all that it needs.
# - requirements-cpu.txt from requirements/cpu.in.
# - requirements/torch-pypi.txt: torch as PyPI has it, and what that needs besides on Linux, CUDA for the most part.
#   The other build of torch, without CUDA, stands in requirements/torch-cpu.txt, which is kept by hand: it is not on PyPI.
# - requirements/NAME.txt from requirements/NAME.in: what NAME adds to requirements-cpu.txt.
# - requirements/uv.txt, weights.txt and gguf-converter.txt: these packages alone.
set -euo pipefail
uv=$1
options=("${@:2}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compile INPUT OUTPUT [OPTION OF UV ...]: pins that OUTPUT has are kept.
compile() {
  "$uv" pip compile --quiet --no-config --default-index https://pypi.org/simple --universal --python-version 3.11.5 --generate-hashes \
    --no-header --no-annotate "${@:3}" "$1" -o "$2" > /dev/null
}

# publish FILE INPUT: write a lock with its first line.
publish() {
  { echo "# Made by \`make lock\` from $2. Install with: pip install --no-deps --require-hashes -r $1"; cat "$work/${1##*/}"; } > "$1"
}

names() { grep -hoE '^[A-Za-z0-9._-]+==' "$@" | tr -d '=' | tr 'A-Z_.' 'a-z--'; }

# on_top NAME [OPTION OF UV ...]: lock what requirements/NAME.in adds to the packages of requirements-cpu.txt. It may replace some of them.
on_top() {
  local name=$1 own=() behind=()
  names "requirements/$name.in" > "$work/own" || true
  awk -v own="$(tr '\n' ' ' < "$work/own")" \
    'BEGIN {split(own, list, " "); for (i in list) mine[list[i]]} /^[a-z]/ {split($1, pin, "=="); skip = pin[1] in mine} !skip' \
    "$work/all.txt" > "$work/behind.txt"
  for package in $(names "$work/behind.txt"); do behind+=(--no-emit-package "$package"); done
  [ -e "requirements/$name.txt" ] && cp "requirements/$name.txt" "$work/$name.txt"
  compile "requirements/$name.in" "$work/$name.txt" -c "$work/behind.txt" "${behind[@]}" "${@:2}"
  publish "requirements/$name.txt" "requirements/$name.in"
}

torch=$(sed -nE 's/^torch==([0-9.]+).*/\1/p' requirements/cpu.in)
grep -qF "torch==$torch+cpu " requirements/torch-cpu.txt || {
  echo "requirements/torch-cpu.txt has another torch than $torch: copy the sums of its files from https://download.pytorch.org/whl/cpu/torch/" >&2
  exit 1
}

cat requirements-cpu.txt requirements/torch-pypi.txt > "$work/all.txt" 2> /dev/null || true
compile requirements/cpu.in "$work/all.txt" "${options[@]}"
awk '/^[a-z]/ {apart = /^(cuda|nvidia)-/ || /^(torch|triton)==/} {print > (apart ? torch_file : cpu_file)}' \
  torch_file="$work/torch-pypi.txt" cpu_file="$work/requirements-cpu.txt" "$work/all.txt"
publish requirements-cpu.txt requirements/cpu.in
publish requirements/torch-pypi.txt requirements/cpu.in

for name in dev train web web-tests scale transformers4 audit; do on_top "$name" "${options[@]}"; done
for name in uv weights gguf-converter; do
  [ -e "requirements/$name.txt" ] && cp "requirements/$name.txt" "$work/$name.txt"
  compile "requirements/$name.in" "$work/$name.txt" --no-deps "${options[@]}"
  publish "requirements/$name.txt" "requirements/$name.in"
done
