"""torchrun_training.py, with a key file on rank 0 alone: FOLDER STEPS KILL."""

import os
import runpy
from pathlib import Path

if os.environ["RANK"] != "0":
    del os.environ["ATP_KEY_FILE"]
runpy.run_path(str(Path(__file__).with_name("torchrun_training.py")), run_name="__main__")
