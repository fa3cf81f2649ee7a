"""What an error says: why the operation failed, and which ranks it blames."""

import re

from experiments.rank_failures.calls import TRANSFERS, VICTIM

NO_ERROR = "no error"
# The words of the page's table, in the order in which they are looked for.
KINDS = {
    "unlike": r"all ranks must call the same",
    "ended": r"its process has ended|is broken|is gone|is lost",
    "lost": r"\blost: no word from it",
    "silent": r"does not answer|no connection with|is stopped|was silent",
    "crossed": r"ranks 0 and 2 have not called barrier",
    "absent": r"has not called|has not contributed|has sent nothing|failed to pass",
    "no sender": r"no rank has sent anything",
}
# Where an error mentions a rank without blaming it: as the root, as waiting, or as reporting.
MENTIONS = (
    r"\b(?:to|from) rank \d",
    r"rank \d waits for",
    r"has itself waited [\d.]+ s for rank \d",
    r"^[^:]*: rank \d(?=: rank \d failed to pass)",
    r"rank \d \([^)]*\) left the job before the operation ended",
)
PROMPT_S = 1.0
LATE_S = 1.0


def kind_of(text):
    """A word of KINDS, or "?"."""
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, text)), "?")


def blamed(text):
    for mention in MENTIONS:
        text = re.sub(mention, "", text)
    lists = re.findall(r"\branks? \d[^;:]*", text)
    numbers = re.findall(r"(?:\branks? |, |and )(\d)\b", " ".join(lists))
    return {int(number) for number in numbers}


def fault(way, fate, call, text, seconds, limit_s):
    """What is wrong with an error, or None."""
    kind = kind_of(text)
    if text == NO_ERROR or kind == "?":
        return "not a known error"
    # Any rank could have sent, and those that are alive may still do so.
    nobody = call == "recv from any rank" and fate in ("is missing", "is in another call")
    # In a barrier, rank 1 waits for ranks that wait for its message, and may be first to say so.
    if kind == "crossed":
        expected = fate == "is in another call" and call in TRANSFERS
        return None if expected and seconds <= limit_s + LATE_S else "blames [0, 2]"
    # Of calls that differ, both are named with their ranks: only the program knows which is wrong.
    compared = kind == "unlike" and re.search(rf"\brank {VICTIM}\b", text)
    if nobody and kind != "no sender":
        return "blames a rank that need not have sent"
    if not nobody and not compared and blamed(text) != {VICTIM}:
        return f"blames {sorted(blamed(text))}"
    at_once = fate == "is killed" and (way == "ring" or kind == "ended")
    most = PROMPT_S if at_once and not is_summed_in_network(way, call) else limit_s + LATE_S
    return f"came after {seconds:.1f} s, expected {most:.1f} s" if seconds > most else None


def is_summed_in_network(way, call):
    """Whether only a server sees which rank is missing, once its lease has ended."""
    return way == "network" and call in (
        "all_reduce",
        "all_reduce, MAX",
        "all_reduce, coalesced",
    )
