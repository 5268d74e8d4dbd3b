#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds mage_bench and runs it with the flags given: tools/bench.sh --benchmark_filter='^gelu/'
# With a CUDA compiler the preset is gpu, otherwise cpu; MAGE_PRESET picks another. --help shows the flags.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=build.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/build.sh"

choose_preset
install_missing
configure
compile mage_bench mage_compare
exec "$build/mage_bench" "$@"
