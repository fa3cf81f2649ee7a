"""A test file of torch's repository, whose tests of Gloo make groups of another backend.

ATP_SUITE_FILE names the file. Its ranks are forked by a server that has imported torch and this
module once.
"""

import functools
import os
from pathlib import Path

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
import torch.multiprocessing
from torch.testing._internal.common_distributed import MultiProcessTestCase

_BACKEND = os.environ["ATP_SUITE_BACKEND"]
if _BACKEND == "atp":
    import atp.torch  # noqa: F401 (registers the backend)


def _over_backend(make):
    """Makes a group of the backend where the test asks for one of Gloo."""

    @functools.wraps(make)
    def made(*arguments, **named):
        arguments = [_BACKEND if argument == "gloo" else argument for argument in arguments]
        if named.get("backend") == "gloo":
            named["backend"] = _BACKEND
        return make(*arguments, **named)

    return made


for _name in ("init_process_group", "new_group"):
    _made = _over_backend(getattr(c10d, _name))
    for _module in (dist, c10d):
        setattr(_module, _name, _made)

_path = Path(os.environ["ATP_SUITE_FILE"])
exec(compile(_path.read_text(), _path, "exec"))

_server = torch.multiprocessing.get_context("forkserver")
_server.set_forkserver_preload([__name__])
MultiProcessTestCase._spawn_processes = lambda self: self._start_processes(_server.Process)
