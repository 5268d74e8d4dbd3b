#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything and runs ctest with the flags given: tools/test.sh -L gpu
# With a CUDA compiler the preset is gpu, otherwise cpu; MAGE_PRESET picks another.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=build.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/build.sh"

usage="Usage: tools/test.sh [flags]
  -R, -E, -L, -LE REGEX     only tests whose name (-R) or label (-L) matches, or does not (-E, -LE)
  -j N, --timeout SECONDS, --repeat MODE:N
  -V, -N, --rerun-failed, --output-on-failure, --stop-on-failure
                            all as ctest has them
  --mage_require_gpu        tests that skip for want of a GPU fail"

refuse() { die "$1."$'\n'"$usage"; }

# By ctest itself, if it is there yet. It leaves a log wherever it is called.
is_regex() {
  local folder said
  folder="$(mktemp -d)"
  said="$(cd "$folder" && ctest -N -R "$1" 2>&1)"
  rm -r "$folder"
  [[ "$said" != *"Error in compile"* ]]
}

# check <flag> <value>: ends the script where ctest would ignore the value or fail on it after the build
check() {
  local number='[1-9][0-9]{0,8}' modes='until-fail|until-pass|after-timeout'
  [[ -n "$2" && "$2" != -* ]] || refuse "$1 has no value"
  case "$1" in
    -j | --timeout) [[ "$2" =~ ^$number$ ]] || refuse "$1 '$2' is no whole number from 1 to 999999999" ;;
    --repeat) [[ "$2" =~ ^($modes):$number$ ]] || refuse "--repeat '$2' is not MODE:N, MODE one of $modes" ;;
    *) is_regex "$2" || refuse "$1 '$2' is no regular expression of ctest's" ;;
  esac
}

# Refused here is what ctest would take for nothing: words, and flags that it does not know.
flags=()
seen=' '
while (($#)); do
  [[ "$1" != -* || "$seen" != *" $1 "* ]] || refuse "$1 was given twice"
  seen+="$1 "
  case "$1" in
    -R | -E | -L | -LE | -j | --timeout | --repeat)
      check "$1" "${2:-}"
      flags+=("$1" "$2")
      shift
      ;;
    -V | -N | --rerun-failed | --output-on-failure | --stop-on-failure) flags+=("$1") ;;
    --mage_require_gpu) export MAGE_REQUIRE_GPU=1 ;;
    -h | --help)
      printf '%s\n' "$usage"
      exit
      ;;
    *) refuse "unknown argument '$1'" ;;
  esac
  shift
done

choose_preset
[[ "$preset" != fuzz ]] || die "MAGE_PRESET=fuzz has no tests. Run tools/fuzz.sh, or use cpu, gpu, asan or all-archs."
install_missing
install_missing_test_packages
configure
compile all
cd "$root"
exec ctest --preset "$preset" --parallel "$(nproc)" "${flags[@]}"
