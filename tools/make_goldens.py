#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the saved inputs and exact outputs of test/data, from the definitions alone.

Nothing here calls the C++ code: Philox in integers, the normal quantile and each family's mathematics (one file a
family in tools/goldens) by mpmath at 50 digits, rounded once. What the tests compare with is therefore a second
implementation. Needs mpmath.

    python3 tools/make_goldens.py test/data
"""

import argparse
import hashlib
import importlib
import json
import math
import pathlib
import struct

import mpmath

mpmath.mp.dps = 50

MASK = 0xFFFFFFFF
DISTRIBUTIONS = ("normal", "shifted", "large", "constant", "spike", "subnormal", "zeros", "special", "tail")


def philox(counter, key):
    """Philox 4x32-10 (Salmon et al., SC'11)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def draw(seed, stream, what, index):
    return philox((index & MASK, index >> 32, stream, what), (seed & MASK, seed >> 32))


def normal(word):
    """Standard normal quantile of (word + 1/2) / 2^32, rounded to double."""
    p = (mpmath.mpf(word) + mpmath.mpf(1) / 2) / 2**32
    return float(mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1))


def from_word(distribution, word):
    if distribution == "shifted":
        return 1e4 + normal(word)
    if distribution == "large":
        return 1e4 * normal(word)
    if distribution == "subnormal":
        magnitude = math.ldexp(1 + (((word >> 1) * 0x7FFFFF) >> 31), -149)
        return -magnitude if word & 1 else magnitude
    if distribution == "zeros":
        return -0.0 if word & 1 else 0.0
    if distribution == "tail":
        return math.ldexp(word >> 8, -20) - 8
    return normal(word)


def generate(rows, cols, distribution, seed, stream):
    """The values of an operand, as FP32 bytes: see include/mage_bench/operand.hpp."""
    values = []
    for i in range(rows * cols):
        if i % 4 == 0:
            words = draw(seed, stream, 0, i // 4)
        values.append(from_word(distribution, words[i % 4]))
    for row in range(rows):
        begin, end = row * cols, (row + 1) * cols
        words = draw(seed, stream, 1, row)
        if distribution == "constant":
            values[begin:end] = [normal(words[0])] * cols
        if distribution == "spike":
            values[begin + ((words[0] << 32) | words[1]) % cols] = 1e6
        if distribution == "special" and row % 7 in (1, 2, 3):
            values[begin:end] = [{1: math.inf, 2: -math.inf, 3: math.nan}[row % 7]] * cols
    return struct.pack(f"<{len(values)}f", *values)


def write_safetensors(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of 8 bytes
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where to write, as in test/data")
    folder = parser.parse_args().folder

    hashes = {}
    for module in sorted((pathlib.Path(__file__).parent / "goldens").glob("*.py")):
        family = importlib.import_module(f"goldens.{module.stem}")
        for problem, (rows, cols, distribution, seed) in family.PROBLEMS.items():
            path = folder / f"{module.stem}_{problem}.safetensors"
            tensors = family.tensors(generate, rows, cols, distribution, seed)
            write_safetensors(path, tensors, {"family": module.stem, "problem": problem})
            hashes[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps({"sha256": hashes}, indent=2) + "\n")

    shape = {"rows": 8, "cols": 37, "seed": 2**40 + 5, "stream": 3}
    values = {name: hashlib.sha256(generate(8, 37, name, shape["seed"], 3)).hexdigest() for name in DISTRIBUTIONS}
    (folder / "generate.json").write_text(json.dumps(shape | {"sha256": values}, indent=2) + "\n")


if __name__ == "__main__":
    main()
