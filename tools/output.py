# SPDX-License-Identifier: Apache-2.0
"""What tools write: a file that is refused before anything is measured, and text on standard output."""

import os
import tempfile
from pathlib import Path


def why_not(out: Path, folder: Path) -> str | None:
    """Why the file cannot be made in that folder; None if it can."""
    try:
        if out.is_dir():
            return f"--out={out} is a directory: name a file"
        if out.exists() or out.is_symlink():
            return f"--out={out} exists; nothing is overwritten: choose another --out, or move it away"
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return f"--out={out}: no file can be made in {folder}: {error.strerror}; choose another --out"
    return None


def show(text: str) -> str | None:
    """Prints it; None, or why that failed. A reader that went away, as `head` does, is no failure."""
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left in the buffer fails again at the exit otherwise
        if not isinstance(error, BrokenPipeError):
            return f"cannot write to stdout: {error.strerror}"
    return None
