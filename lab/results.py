"""The folder that a demo or an experiment leaves its results in."""

import argparse
import tempfile
from pathlib import Path


def results_folder(text):
    """For argparse: the folder, made if need be and found writable before anything is measured.

    A default must be a string, which argparse then passes through here as well.
    """
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"cannot write results into {path}: {error.strerror}; name a folder that you may "
            "write to"
        ) from None
    return path
