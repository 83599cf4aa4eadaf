"""The map of the repository in README.md is complete, and every module says what it is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("audio", "pipeline", "realtime", "bench")
MODULES = sorted(
    path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")
)
PAGE = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "web_demo").iterdir()
    if path.suffix in (".js", ".html", ".css")
)


def files_of_the_tree() -> dict[str, str]:
    """Path of each file in README's tree, and its line's words."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (tree,) = re.findall(r"<!-- tree -->\n```\n(.*?)```", text, re.DOTALL)
    files: dict[str, str] = {}
    folder = ""
    for line in tree.splitlines():
        entry = re.match(r"(?P<indent> *)(?P<names>\S+(?: \S+\.\S+)*)(?:  +(?P<what>.*))?$", line)
        if not line.strip() or entry is None:
            continue
        for name in entry["names"].split():
            if name.endswith("/"):
                folder = name
            elif entry["indent"]:
                files[folder + name] = entry["what"] or ""
    return files


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_every_module_says_what_it_is(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    assert docstring, f"{path} does not say what it is"


@pytest.mark.parametrize(
    "path", [path for path in [*MODULES, *PAGE] if path.name != "__init__.py"], ids=str
)
def test_every_module_has_a_line_in_the_tree_of_the_readme(path: Path) -> None:
    files = files_of_the_tree()
    assert path.as_posix() in files, f"{path} is not in README's tree"
    assert files[path.as_posix()], f"{path} has no words in README's tree"


def test_the_tree_of_the_readme_names_no_file_that_is_gone() -> None:
    gone = [name for name in files_of_the_tree() if not (ROOT / name).exists()]
    assert gone == []
