"""The results folder of a demo or experiment."""

import argparse
import tempfile
from pathlib import Path


def results_folder(text):
    """An argparse type: a folder, created if necessary and checked to be writable in advance.

    A default must be a string, so that argparse passes it through here as well.
    """
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"cannot write results into {path}: {error.strerror}; choose a folder that you can "
            "write to"
        ) from None
    return path
