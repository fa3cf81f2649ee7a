"""What a network of namespaces needs of this machine."""

import os
import shutil


def missing(*tools):
    """What is missing, and what to do about it, or None; `tools` are wanted beside ip and tc."""
    if os.geteuid() != 0:
        return "network namespaces need root: run this as root, or with sudo"
    absent = [tool for tool in ("ip", "tc", *tools) if shutil.which(tool) is None]
    if absent:
        return f"{', '.join(absent)} not found: run tools/setup --dev"
    return None
