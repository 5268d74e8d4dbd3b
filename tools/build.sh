# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What tools/test.sh and tools/bench.sh share: find or install what is missing, configure once, build. To be sourced.

root="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)"

say() { printf '%s\n' "mage_bench: $*" >&2; }

die() {
  say "$*"
  exit 2
}

[[ "${BASH_SOURCE[0]}" != "$0" ]] || die "build.sh does nothing by itself. Run tools/test.sh or tools/bench.sh."

# A compiler that runs: a link to a toolkit that is gone is none.
has_nvcc() { nvcc --version >/dev/null 2>&1; }

# Sets preset, and exports the paths that CMake needs to find nvcc.
choose_preset() {
  if [[ -z "${CUDACXX:-}" ]] && ! has_nvcc && [[ -x /usr/local/cuda/bin/nvcc ]]; then
    export CUDACXX=/usr/local/cuda/bin/nvcc
  fi
  if [[ -n "${MAGE_PRESET:-}" ]]; then
    preset="$MAGE_PRESET"
  elif [[ -n "${CUDACXX:-}" ]] || has_nvcc; then
    preset=gpu
  else
    preset=cpu
  fi
  case "$preset" in
    cpu | gpu | asan | fuzz | all-archs) ;;
    *) die "MAGE_PRESET=$preset is no preset. Use cpu, gpu, asan, fuzz or all-archs." ;;
  esac
  # shellcheck disable=SC2034 # the scripts that source this file use it
  build="$root/build/$preset"
}

# Prints the packages whose commands or headers are not there. It looks for the things themselves: a machine may have
# them from elsewhere than its package manager.
missing_packages() {
  local compiler="${CXX:-g++}"
  command -v cmake >/dev/null || echo cmake
  command -v ninja >/dev/null || command -v ninja-build >/dev/null || echo ninja-build
  command -v python3 >/dev/null || echo python3
  local packages=(
    "libbenchmark-dev benchmark/benchmark.h"
    "libgtest-dev gtest/gtest.h"
    "nlohmann-json3-dev nlohmann/json.hpp"
    "libfmt-dev fmt/core.h"
    "libcli11-dev CLI/CLI.hpp"
    "libssl-dev openssl/evp.h"
  )
  if ! command -v "$compiler" >/dev/null; then
    echo g++
    printf '%s\n' "${packages[@]%% *}"
    return
  fi
  local folders=() prefix
  IFS=: read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do folders+=(-I "$prefix/include"); done
  local entry
  for entry in "${packages[@]}"; do
    printf '#if !__has_include(<%s>)\n%s\n#endif\n' "${entry#* }" "${entry% *}"
  done | "$compiler" -std=c++17 -E -P -x c++ "${folders[@]}" - | grep -v '^$' || true
}

# Prints the packages that only some tests use: upstream's compare.py and what it imports.
missing_test_packages() {
  [[ -f /usr/share/benchmark/compare.py ]] || echo libbenchmark-tools
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import importlib.util as u, sys; sys.exit(not (u.find_spec("numpy") and u.find_spec("scipy")))' \
      2>/dev/null; then
      return
    fi
  done
  echo python3-numpy
  echo python3-scipy
}

# install_packages <packages>: 0 where they are there afterwards. Ends the script where only the user can install them.
install_packages() {
  local line="apt-get install -y --no-install-recommends $*"
  local become=()
  command -v apt-get >/dev/null || return 1
  if [[ "$(id -u)" != 0 ]]; then
    if ! sudo -n true 2>/dev/null; then
      die "missing packages. Run: sudo apt-get update && sudo $line"
    fi
    become=(sudo -n)
  fi
  say "installing $*"
  mkdir -p "$root/build"
  local log="$root/build/apt.log"
  {
    local patience=(-o Acquire::http::Timeout=20 -o Acquire::Retries=1) # a machine without a network is soon known
    "${become[@]}" apt-get "${patience[@]}" update -qq || true # an old list may do
    "${become[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get "${patience[@]}" install -y -qq --no-install-recommends "$@"
  } >"$log" 2>&1 </dev/null
}

install_missing() {
  local packages
  [[ -f "$build/build.ninja" || -f "$build/Makefile" ]] && return # what was found once is there
  mapfile -t packages < <(missing_packages)
  if [[ ${#packages[@]} -gt 0 ]] && ! install_packages "${packages[@]}"; then
    say "could not install ${packages[*]} (build/apt.log says why); going on, CMake fetches what it can"
  fi
}

# Tests that need these say that they are skipped, so their absence stops nothing; it is tried once a checkout.
install_missing_test_packages() {
  local packages tried="$root/build/test-packages-tried"
  [[ -e "$tried" ]] && return
  mapfile -t packages < <(missing_test_packages)
  [[ ${#packages[@]} -eq 0 ]] && return
  if ! install_packages "${packages[@]}"; then
    say "could not install ${packages[*]}; the tests that need them will be skipped"
    mkdir -p "$root/build" && touch "$tried"
  fi
}

# The architecture of the first GPU in the form of MAGE_CUDA_ARCHITECTURES; nothing where there is none.
gpu_architecture() {
  local capability
  capability="$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1)" || return 0
  case "$capability" in
    [0-9]*.[0-9]) ;;
    *) return 0 ;;
  esac
  capability="${capability/./}"
  case "$capability" in
    9? | 1??) echo "${capability}a-real" ;; # the features of Hopper and later need the suffix
    *) echo "$capability-real" ;;
  esac
}

configure() {
  local options=() architectures="${MAGE_CUDA_ARCHITECTURES:-}"
  if [[ "$preset" == gpu ]]; then
    if [[ -z "$architectures" && ! -f "$build/CMakeCache.txt" ]]; then
      architectures="$(gpu_architecture)"
    fi
    if [[ -n "$architectures" ]] &&
      ! grep -qsxF "MAGE_CUDA_ARCHITECTURES:STRING=$architectures" "$build/CMakeCache.txt"; then
      options+=("-DMAGE_CUDA_ARCHITECTURES=$architectures")
    fi
  fi
  if [[ ${#options[@]} -eq 0 && (-f "$build/build.ninja" || -f "$build/Makefile") ]]; then
    return
  fi
  if ! command -v ninja >/dev/null && ! command -v ninja-build >/dev/null; then
    options+=(-G "Unix Makefiles")
  fi
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
  fi
  say "configuring build/$preset"
  mkdir -p "$build"
  if ! (cd "$root" && cmake --preset "$preset" "${options[@]}") >"$build/configure.log" 2>&1; then
    cat "$build/configure.log" >&2
    die "cmake --preset $preset failed. After a change of compiler or packages, remove build/$preset and try again."
  fi
}

# compile [target...]: all of them where none is named
compile() {
  say "building build/$preset"
  local jobs="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
  if ! cmake --build "$build" --parallel "$jobs" --target "$@" >"$build/build.log" 2>&1; then
    grep -vE '^\[[0-9]+/[0-9]+\] ' "$build/build.log" | tail -n 80 >&2
    die "the build failed. All of its output is in build/$preset/build.log"
  fi
}
