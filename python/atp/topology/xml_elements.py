"""An XML file as a tree of elements that know their lines.

Files of other programs are small and flat, so one with a document type (and so with entities), with
elements nested more than 64 deep, or more than 100,000 in total, is refused.
"""

from __future__ import annotations

import dataclasses
from xml.parsers import expat

from atp.topology.text import FileError, place, refuse, shown

_MAX_DEPTH = 64
_MAX_ELEMENTS = 100_000


@dataclasses.dataclass
class Element:
    name: str
    line: int
    attributes: dict[str, str]
    children: list[Element] = dataclasses.field(default_factory=list)
    text: str = ""  # between its children, without white space at its ends

    def place(self, file: str, key: str = "") -> str:
        """As in "topo.xml:7: pci.busid"."""
        return place(file, self.line, f"{self.name}.{key}" if key else self.name)


def parse(text: str, file: str) -> Element:
    """The outermost element."""
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    top = Element("", 0, {})
    around = [(top, [""])]  # with the pieces of their texts
    count = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        element = Element(name, parser.CurrentLineNumber, attributes)
        if len(around) > _MAX_DEPTH:
            refuse(element.place(file), "elements nested more than 64 deep", "at most 64")
        if count > _MAX_ELEMENTS:
            refuse(element.place(file), "more than 100,000 elements", "at most 100,000")
        around[-1][0].children.append(element)
        around.append((element, []))

    def end(_: str) -> None:
        element, texts = around.pop()
        element.text = "".join(texts).strip()

    def characters(data: str) -> None:
        around[-1][1].append(data)

    def document_type(name: str, *_: object) -> None:
        where = place(file, parser.CurrentLineNumber)
        refuse(where, f"the document type {shown(name)}", "elements only", "remove it")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = document_type
    try:
        parser.Parse(text.encode("utf-8", "surrogateescape"), True)
    except expat.ExpatError as error:
        problem = f"not XML ({expat.ErrorString(error.code)}); was the file truncated?"
        raise FileError(place(file, error.lineno), problem) from None
    return top.children[0]
