"""Results of entries in a folder: a file per entry, with its commit and size."""

import json
import subprocess
from dataclasses import asdict

from experiments import report
from experiments.papers.entry import Check


def commit():
    """The commit that runs, and whether anything but the documents differs from it."""

    def git(*words):
        done = subprocess.run(
            ["git", *words], capture_output=True, text=True, cwd=report.REPOSITORY
        )
        return done.stdout.strip() if done.returncode == 0 else None

    name = git("rev-parse", "--short=10", "HEAD")
    if name is None:
        return "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
    return f"{name} with changes" if changed else name


def save(folder, entry, size, outcome, seconds, at):
    """Writes KEY.json, KEY.csv and KEY.svg; returns what load() would."""
    report.publish(folder / entry.key, outcome.rows, outcome.figure)
    found = {
        "key": entry.key,
        "commit": at,
        "quick": size.quick,
        "seconds": round(seconds, 1),
        "ours": outcome.ours,
        "spread": outcome.spread,
        "checks": [asdict(check) for check in outcome.checks],
    }
    (folder / f"{entry.key}.json").write_text(json.dumps(found, indent=1) + "\n")
    return found


def load(folder, entry):
    """The stored result of an entry, or None."""
    path = folder / f"{entry.key}.json"
    try:
        found = json.loads(path.read_text())
        found["checks"] = [asdict(Check(**check)) for check in found["checks"]]
        return found
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        print(f"{path} cannot be read ({error}): the entry runs again", flush=True)
        return None


def failed(found):
    """The checks of a result that do not hold."""
    return [check for check in (Check(**one) for one in found["checks"]) if not check.holds]
