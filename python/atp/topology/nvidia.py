"""The output of `nvidia-smi topo -m`: the path between each pair of GPUs.

It shows how GPUs are connected but not how fast, so bandwidths are typical ones unless the user
gives them. Its columns for network cards and CPU affinity and its legend are skipped.
"""

from __future__ import annotations

import re

from atp.topology.machine import MAX_GPUS, NAMES, NV, SYS, Gpus, Machine, Path, Paths, machine_of
from atp.topology.text import FileError, integer, place, refuse, shown

# By class of links. NVLink 2 to 4 have 25 GB/s per link, NVLink 5 has 50; PCIe 4.0 x16 has 32 GB/s
# less its overhead; links between sockets vary widely.
USUAL = (25e9, 32e9, 32e9, 32e9, 32e9, 20e9)


def read(text: str, file: str, given: dict[str, float]) -> Machine:
    """`given` has bandwidths by the classes' names."""
    bandwidths = [given.get(name, usual) for name, usual in zip(NAMES, USUAL)]  # noqa: B905
    matrix = _matrix(text, file)

    def group_link(link: int, group: Gpus, _: Gpus, by_nvlink: bool) -> float:
        """GPUs connected by NVLink still have a PCIe slot each; others share a link."""
        return bandwidths[link] * (len(group) if by_nvlink else 1)

    def pair(source: int, target: int) -> float:
        link, nvlinks = matrix[source][target]
        return bandwidths[link] * (nvlinks if link == NV else 1)

    remark = (
        "It contains no bandwidths: these are typical ones for the classes of links. Replace them "
        "with yours."
    )
    paths = Paths(matrix, bandwidths[NV], group_link, pair)
    return machine_of(paths, "the output of nvidia-smi topo -m", [remark])


def _words(line: str) -> list[str]:
    """Without the escape sequences that underline the header."""
    return re.findall("[^ \t\r]+", re.sub("\x1b[^m]*m?", "", line))


def _is_gpu(word: str) -> bool:
    return word.startswith("GPU") and integer(word[3:]) is not None


def _matrix(text: str, file: str) -> list[list[Path]]:
    lines = list(enumerate(map(_words, text.split("\n")), 1))
    headers = [at for at, (_, words) in enumerate(lines) if words and _is_gpu(words[0])]
    if not headers:
        what = "the output of nvidia-smi topo -m"
        refuse(place(file), "no line that begins with GPU0", what)
    number, header = lines[headers[0]]
    gpus = next((at for at, word in enumerate(header) if not _is_gpu(word)), len(header))
    if gpus > MAX_GPUS:
        refuse(place(file, number), f"{gpus} GPUs", f"at most {MAX_GPUS}")
    matrix: list[list[Path]] = []
    rows = []
    for line, words in lines[headers[0] + 1 :]:
        if len(matrix) < gpus and words and words[0] == header[len(matrix)]:
            matrix.append(_row(words[1:], gpus, len(matrix), file, line))
            rows.append(line)
    if len(matrix) < gpus:
        expected = f"{gpus}, one per column"
        advice = "was the text truncated?"
        refuse(place(file, number), f"{len(matrix)} rows of GPUs", expected, advice)
    for a in range(gpus):
        for b in range(a):
            if matrix[a][b] != matrix[b][a]:
                where = place(file, rows[a], f"GPU{a}, GPU{b}")
                advice = "was the text truncated or edited?"
                raise FileError(where, f"the two halves of the matrix differ; {advice}")
    return matrix


def _row(words: list[str], gpus: int, row: int, file: str, line: int) -> list[Path]:
    paths = []
    for column in range(gpus):
        where = place(file, line, f"GPU{row}, GPU{column}")
        word = words[column] if column < len(words) else ""
        if row == column:
            if word != "X":
                refuse(where, shown(word), "X on the diagonal")
            paths.append((SYS, 0))
            continue
        path = _path(word)
        if path is None:
            refuse(where, shown(word), "NV#, PIX, PXB, PHB, NODE or SYS")
        paths.append(path)
    return paths


def _path(word: str) -> Path | None:
    if word.startswith("NV"):
        links = integer(word[2:])
        return (NV, links) if links is not None and 1 <= links <= 1000 else None
    name = "SYS" if word == "SOC" else word  # its name in old versions
    return (NAMES.index(name), 0) if name in NAMES else None
