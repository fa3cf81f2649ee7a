"""Texts for people: which ranks have which plan, and where two plans first differ."""

import collections
from collections.abc import Mapping, Sequence

__all__ = ["first_difference", "name_ranks"]


def first_difference(
    modules: Mapping[str, Mapping[str, str]], ranks: Mapping[str, Sequence[int]]
) -> str:
    """For example "b: Column on ranks 0, 1, Row on rank 2"; empty if all ranks have the same.

    Args:
        modules: for each plan, its description of every module.
        ranks: for each plan, the ranks that have it.
    """
    for name in dict.fromkeys(name for own in modules.values() for name in own):
        sides = collections.defaultdict(list)
        for text, own in modules.items():
            sides[own.get(name, "nothing")] += ranks[text]
        if len(sides) > 1:
            parts = [f"{what} on {name_ranks(who)}" for what, who in sides.items()]
            return f"{name}: {', '.join(parts)}"
    return ""


def counted(number: int, noun: str) -> str:
    """ "1 chunk", "2 chunks"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def name_ranks(ranks: Sequence[int]) -> str:
    some = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank {some}" if len(ranks) == 1 else f"ranks {some}"
