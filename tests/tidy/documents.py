"""The rules about documents: invariants that tests name, links that lead somewhere, headers that tell the truth."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

DEFINITION = re.compile(r"^- \*\*([A-Z]\d+)\*\*( \(planned\))? ", re.MULTILINE)
KEPT = re.compile(r"\b([A-Z]\d{1,2})\b(?= )")
ANCHOR = re.compile(r'^<a id="(k\d\d)"></a>\n## (k\d\d) (\w+)$', re.MULTILINE)
VERSION_HEADING = re.compile(r"^## \[?([^\]\s]+)\]?(?: - \d{4}-\d\d-\d\d)?$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
API_TITLE = re.compile(r"(\w+) \(key (\d+), v(\d+)(?:-(\d+))?\): \S")
FLEXIBLE = re.compile(r"\bv(\d+) first flexible")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFacts:
    """What the registry and the schema say about one API."""

    key: int
    name: str
    first: int
    last: int
    flexible_from: int

    @property
    def stem(self) -> str:
        """The name of its file."""
        return f"k{self.key:02}_" + re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()


def defined_invariants(design: str) -> dict[str, bool]:
    """Every invariant id that the design defines, and whether it is more than planned."""
    return {name: not planned for name, planned in DEFINITION.findall(design)}


def complain_about_invariants(design: str, tests: Iterable[str], modules: Mapping[str, str]) -> Iterator[str]:
    """An invariant is defined once, a held one is named by a test, and a module keeps only defined ones."""
    names = [name for name, _ in DEFINITION.findall(design)]
    yield from (f"{name} is defined twice" for name in sorted(set(names)) if names.count(name) > 1)
    tested = {name for text in tests for name in re.findall(r"\b[A-Z]\d+\b", text)}
    held = [name for name, is_held in defined_invariants(design).items() if is_held]
    yield from (f"{name} is named by no test" for name in held if name not in tested)
    for path, docstring in modules.items():
        yield from (f"{path} keeps {name}, which is not defined" for name in kept_by(docstring) if name not in names)


def kept_by(docstring: str) -> list[str]:
    """The invariant ids that a module header says it keeps."""
    match = re.search(r"^Keeps:(.*(?:\n[ \t]+.*)*)", docstring, re.MULTILINE)
    return KEPT.findall(match.group(1)) if match else []


def complain_about_changelog(changelog: str, version: str) -> Iterator[str]:
    """The newest entry is this version or unreleased, and each begins with what changed about the guarantees."""
    headings = VERSION_HEADING.findall(changelog)
    released = version.partition(".dev")[0]
    if not headings or headings[0] not in {"Unreleased", version, released}:
        yield f"the first entry is {headings[:1]}, not Unreleased or {version}"
    for name, text in zip(headings, VERSION_HEADING.split(changelog)[2::2], strict=True):
        first = re.search(r"^### (.*)$", text, re.MULTILINE)
        if first is None or first.group(1) != "Guarantees":
            yield f"{name} does not begin with the heading Guarantees"


def dead_links(text: str, exists: Mapping[str, bool]) -> list[str]:
    """Links to files that are not there."""
    return [target for target in local_links(text) if not exists.get(target, False)]


def local_links(text: str) -> list[str]:
    """Where a Markdown text points inside the project."""
    return [target for target in LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]


def complain_about_anchors(differences: str, names: Mapping[int, str]) -> Iterator[str]:
    """Every API has its section, in order, with an anchor of the same name."""
    found = ANCHOR.findall(differences)
    yield from (f"anchor {anchor} stands over {heading}" for anchor, heading, _ in found if anchor != heading)
    here = {int(heading[1:]): name for _, heading, name in found}
    if list(here) != sorted(here):
        yield "the sections are not in the order of the keys"
    yield from (
        f"k{key:02} should be {name}, is {here.get(key)}" for key, name in names.items() if here.get(key) != name
    )


def complain_about_service(differences: str, served: Iterable[int]) -> Iterator[str]:
    """The page says "Not served." of exactly those APIs that are not."""
    parts = ANCHOR.split(differences)[1:]
    absent = {int(heading[1:]) for heading, body in zip(parts[1::4], parts[3::4], strict=True) if "Not served." in body}
    present = {int(heading[1:]) for heading in parts[1::4]} - absent
    yield from (f"k{key:02} is served, and the page says it is not" for key in sorted(absent & set(served)))
    yield from (f"k{key:02} is not served, and the page does not say so" for key in sorted(present - set(served)))


def complain_about_api(stem: str, docstring: str, facts: ApiFacts) -> Iterator[str]:
    """The header of an API file says what the registry and the schema say."""
    if stem != facts.stem:
        yield f"{stem}: the file should be {facts.stem}"
    title = API_TITLE.match(docstring)
    said = (title[1], int(title[2]), int(title[3]), int(title[4] or title[3])) if title else None
    if said != (facts.name, facts.key, facts.first, facts.last):
        yield f"{stem}: the header says {said}, the registry {(facts.name, facts.key, facts.first, facts.last)}"
    if f"docs/DIFFERENCES.md#k{facts.key:02}" not in docstring:
        yield f"{stem}: the header does not point at docs/DIFFERENCES.md#k{facts.key:02}"
    if "\nSources:" not in docstring:
        yield f"{stem}: the header has no Sources:"
    for version in FLEXIBLE.findall(docstring):
        if int(version) != facts.flexible_from:
            yield f"{stem}: v{version} is not the first flexible version, v{facts.flexible_from} is"
