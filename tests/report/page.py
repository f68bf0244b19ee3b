"""A page taken apart: its text, its elements, and whether each of them is closed where it should be; what any page has
to be: nothing from outside, no script, and a structure for those who do not see it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

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


def outline(text: str) -> set[tuple[str, tuple[str, ...]]]:
    """The kinds of elements in a page: tag and names of attributes."""
    return {(e.tag, tuple(e.attributes)) for e in read(text).walk()}


def needs_nothing_from_outside(text: str) -> None:
    for resource in ("http:", "https:", "//", "src=", "@import", "url(", "<script", "<link", "<iframe", "javascript:"):
        assert resource not in text.replace("url(#", "url-of-this-page(#"), resource
    page = read(text)
    policies = [e.attributes["content"] for e in page.all("meta") if "http-equiv" in e.attributes]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    links = [e.attributes["href"] for e in page.walk() if "href" in e.attributes]
    assert links and all(link.startswith("#") for link in links)


def has_structure(page: Element) -> None:
    """What a screen reader needs."""
    assert page.all("html")[0].attributes["lang"] == "en"
    assert any(e.attributes.get("name") == "viewport" for e in page.all("meta"))
    levels = [int(e.tag[1]) for e in page.walk() if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b <= a + 1 for a, b in pairwise(levels))
    ids = [e.attributes["id"] for e in page.walk() if "id" in e.attributes]
    assert len(ids) == len(set(ids)), sorted(i for i in set(ids) if ids.count(i) > 1)
    targets = [e.attributes["href"].removeprefix("#") for e in page.walk() if "href" in e.attributes]
    targets += [e.attributes["aria-labelledby"] for e in page.walk() if "aria-labelledby" in e.attributes]
    targets += [t for e in page.walk() for v in e.attributes.values() for t in re.findall(r"url\(#([^)]*)\)", v)]
    assert set(targets) <= set(ids), set(targets) - set(ids)
    for table in page.all("table"):
        assert table.all("th") and all("scope" in e.attributes for e in table.all("th"))
    assert all(e.children[0] == "\n" and e.all("summary") for e in page.all("details"))


def contrast(front: str, back: str) -> float:
    """Of two colours, "#rgb" or "#rrggbb", as WCAG 2 defines it."""
    light, dark = sorted((_luminance(front), _luminance(back)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    full = color[1:] if len(color) == 7 else "".join(c * 2 for c in color[1:])
    parts = [int(full[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
