"""XML files as elements that know their lines."""

import time

import pytest

from atp.topology import xml_elements

from .descriptions import error_of


def test_elements_know_their_lines_attributes_and_texts():
    root = xml_elements.parse(
        '\ufeff<?xml version="1.0"?>\n\n<!-- b -->\n'
        "<a x=\"1 &lt; 2\">\n  <b/>\n\n  <c y='3'> 4 5 </c>\n</a>\n",
        "f",
    )
    assert (root.name, root.line, root.attributes) == ("a", 4, {"x": "1 < 2"})
    first, second = root.children
    assert (first.line, second.line, second.text) == (5, 7, "4 5")
    assert second.place("f", "y") == "f:7: c.y"


BOMB = '<!DOCTYPE a [<!ENTITY b "0123456789">' + "".join(
    f'<!ENTITY b{at} "{f"&b{at - 1 or str()};" * 10}">' for at in range(1, 10)
)
REFUSED = {
    "an empty file": ("", "f:1: not XML (no element found)", "was the file truncated?"),
    "space alone": (" \n\n", "f:3: not XML (no element found)", "truncated"),
    "text": ("GPU0\n", "f:1: not XML", ""),
    "text after the end": ("<a/>\nrest", "f:2: not XML (junk after document element)", ""),
    "an element that never ends": ("<a>\n<b>\n</b>\n", "f:4: not XML", "truncated"),
    "a tag that never ends": ('<a>\n<b x="1', "f:2: not XML", "truncated"),
    "tags that cross": ("<a>\n<b>\n</a></b>", "f:3: not XML (mismatched tag)", ""),
    "two files in one": ("<a/>\n<a/>\n", "f:2: not XML (junk after document element)", ""),
    "an attribute twice": ("<a>\n<b x='1' x='2'/></a>", "f:2: not XML (duplicate attribute)", ""),
    "a zero byte": ("<a>\n\0</a>", "f:2: not XML", ""),
    "bytes that are not text": ("<a>\n\udcff</a>", "f:2: not XML", ""),
    "another encoding": ('<?xml version="1.0" encoding="x"?>\n<a>\udcff</a>', "f:2: not XML", ""),
    "a deep tree": ("<a>" * 65 + "</a>" * 65, "f:1: a: found elements nested more than 64", "64"),
    "an endlessly deep tree": ("<a>" * 10**6, "f:1: a: found elements nested more than 64", "64"),
    "a huge tree": (
        "<a>" + "<b/>" * 100000 + "</a>",
        "f:1: b: found more than 100,000 elements",
        "at most 100,000",
    ),
    "a document type": (
        '<!DOCTYPE a SYSTEM "a.dtd">\n<a/>',
        'f:1: found the document type "a", expected elements only',
        "remove it",
    ),
    "a bomb of entities": (BOMB + "]>\n<a>&b9;</a>", 'f:1: found the document type "a"', ""),
    "an entity that nobody defined": ("<a>&b;</a>", "f:1: not XML (undefined entity)", ""),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_one_whole_element_is_refused_with_its_line(what):
    text, begin, rest = REFUSED[what]
    error = error_of(xml_elements.parse, text, "f")
    assert error.startswith(begin) and rest in error, error


def test_much_text_between_many_elements_takes_little_time():
    before = time.process_time()
    xml_elements.parse("<a>" + ("x" * 60 + "<b/>") * 50000 + "</a>", "f")
    assert time.process_time() - before < 20  # pieces that are added one by one take minutes
