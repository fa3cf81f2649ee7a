"""What a network of namespaces needs of this machine."""

import os
import shutil


def missing():
    """What is missing and what to do about it, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root: run this as root, or with sudo"
    tools = [tool for tool in ("ip", "tc", "nft", "ethtool") if shutil.which(tool) is None]
    if tools:
        return f"{', '.join(tools)} not found: run tools/setup --dev"
    return None
