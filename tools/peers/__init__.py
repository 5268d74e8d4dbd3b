# SPDX-License-Identifier: Apache-2.0
"""Parts of tools/torch_peers.py."""

import sys


def say(text: str) -> None:
    print(f"torch_peers.py: {text}", file=sys.stderr, flush=True)
