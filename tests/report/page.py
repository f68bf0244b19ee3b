"""A page taken apart: its text, its elements, and whether each of them is closed where it should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "input", "hr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def all(self, tag: str) -> list[Element]:
        return [e for e in self.walk() if e.tag == tag]

    def by_id(self, name: str) -> Element:
        (found,) = (e for e in self.walk() if e.attributes.get("id") == name)
        return found

    @property
    def text(self) -> str:
        """Its words, one blank between them."""
        parts = (c if isinstance(c, str) else c.text for c in self.children if self.tag != "style")
        return " ".join(" ".join(parts).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>, line {self.getpos()[0]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(text: str) -> Element:
    """The elements of a page. Fails where one is not closed, or closes another one."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert [e.tag for e in reader.open] == ["document"], f"never closed: {[e.tag for e in reader.open[1:]]}"
    return reader.open[0]
