"""Writes docs/api.md: every public name and the first sentence of its docstring, read from the source.

python docs/generate_api.py           writes the page
python docs/generate_api.py --check   says whether it is up to date (exit 1 if not)
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "contract"
PAGE = ROOT / "docs" / "api.md"

HEAD = """# Every public name

Written by `python docs/generate_api.py`; do not edit.

## For applications

All of these are importable from `interlock` itself.
"""
PORT = """
## For adapters

An adapter imports these from their own modules: `interlock` itself knows the engine, which an adapter must not.
"""
PORT_MODULES = (
    "interlock.adapter",
    "interlock.actions",
    "interlock.attached",
    "interlock.capabilities",
    "interlock.model",
    "interlock.framing.lines",
    "interlock.framing.content_length",
    "interlock.framing.json_objects",
    "interlock.framing.jsonrpc",
)


_DEFINED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def tree(module: str) -> ast.Module:
    """The syntax tree of a module, or of a package's own file."""
    path = SOURCE / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def assigned(module: str, name: str) -> object:
    """The literal value that a module gives to a name; None if it gives none."""
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return ast.literal_eval(node.value)
    return None


def exported() -> dict[str, list[str]]:
    """The names of the package itself, by the module they live in."""
    table = assigned("interlock", "_NAMES")
    if not isinstance(table, dict):
        raise TypeError("interlock/__init__.py has no table _NAMES")
    return {str(module): str(names).split() for module, names in table.items()}


def ported() -> dict[str, list[str]]:
    """The names of the port's modules that the package itself does not have."""
    known = {name for names in exported().values() for name in names}
    return {module: [name for name in _all(module) if name not in known] for module in PORT_MODULES}


def _all(module: str) -> list[str]:
    listed = assigned(module, "__all__")
    if isinstance(listed, list):
        return [str(name) for name in listed]
    return [node.name for node in tree(module).body if isinstance(node, _DEFINED) and not node.name.startswith("_")]


def docstrings(module: str) -> dict[str, str]:
    """What a module says of each name at its top level; empty where it says nothing."""
    return {name: text for node, after in _pairs(tree(module).body) for name, text in _documented(node, after)}


def _pairs(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    yield from zip(body, [*body[1:], None], strict=True)


def _documented(node: ast.stmt, after: ast.stmt | None) -> Iterator[tuple[str, str]]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.name, ast.get_docstring(node) or ""
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name, _text(after)
        case ast.ImportFrom(module=source, names=names):
            yield from ((alias.asname or alias.name, f"The `{alias.name}` of `{source}`.") for alias in names)
        case _:
            pass


def _text(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str() as text)):
            return text
        case _:
            return ""


def sentence(text: str) -> str:
    """The first sentence, on one line."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s+(?=[A-Z`])", paragraph)[0]


def section(module: str, names: list[str]) -> Iterator[str]:
    """The lines about one module; raises `LookupError` for a name without a docstring."""
    yield f"\n### {module}\n"
    texts = docstrings(module)
    for name in names:
        if not texts.get(name):
            raise LookupError(f"{module}.{name} has no docstring")
        yield f"- `{name}`: {sentence(texts[name])}"


def page() -> str:
    """The whole page."""
    lines = [HEAD.rstrip()]
    lines += [line for module, names in exported().items() for line in section(module, names)]
    lines.append(PORT.rstrip())
    lines += [line for module, names in ported().items() for line in section(module, names)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
