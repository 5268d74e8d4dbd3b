# SPDX-License-Identifier: Apache-2.0
"""Parts of tools/torch_peers.py."""
