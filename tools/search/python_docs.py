"""``pydoc:``: the running interpreter's own documentation as pages. Sources are parsed, never imported (some standard
modules open a browser or a window when imported); what C modules document is read from those loaded at start-up.
"""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path

from tools.search.python_render import clean, render_class, render_function, signature
from tools.search.sources import BrokenFile, Listing, PageDraft, Stamp

_SKIPPED_PARTS = frozenset(
    {"test", "tests", "idlelib", "site-packages", "lib2to3", "turtledemo", "ensurepip", "__pycache__", "_pyrepl"}
)
_TOPICS = "pydoc_data/topics.py"
_BUILTINS = "(built-in)"
_ALIASES = {"_pydecimal": "decimal", "_collections_abc": "collections.abc"}
"""Private modules that hold a public one's documentation; the public file of that name is then left out."""
_ALIASED = frozenset(f"{public.replace('.', '/')}.py" for public in _ALIASES.values())
C_MODULES = {
    "builtins": "builtins",
    "sys": "sys",
    "time": "time",
    "itertools": "itertools",
    "math": "math",
    "_collections": "collections",
    "_functools": "functools",
    "_io": "io",
    "_operator": "operator",
    "_sre": "re",
    "posix": "os",
    "nt": "os",
    "gc": "gc",
    "errno": "errno",
    "_thread": "_thread",
    "_datetime": "datetime",
    "_struct": "struct",
    "_random": "random",
    "_json": "json",
    "zlib": "zlib",
    "binascii": "binascii",
    "array": "array",
    "select": "select",
    "unicodedata": "unicodedata",
}
"""C module -> the name people know it by. Read only when already loaded: nothing is imported for this."""

SPLIT_CHARS = 6_000
"""A module page longer than this keeps its summary; its classes and functions get pages of their own."""
MAX_SOURCE_BYTES = 2_000_000


class PythonDocs:
    """`PageSource` over the standard library: a page per module, per class and function of large modules, per topic."""

    kind = "pydoc"

    def __init__(self) -> None:
        self._root = Path(sysconfig.get_path("stdlib")).resolve()
        self.location = f"{sys.implementation.cache_tag} {sys.version} {self._root}"

    def listing(self) -> Listing:
        files = {name: Stamp.of(self._root / name) for name in sorted(_sources(self._root))}
        files[_BUILTINS] = Stamp(0, len(_loaded()))
        return Listing(files)

    def read(self, name: str) -> Iterator[PageDraft]:
        if name == _BUILTINS:
            for module, public in _loaded():
                yield from _c_pages(module, public)
            return
        try:
            tree = ast.parse((self._root / name).read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            raise BrokenFile(f"{name}: {error}") from error
        if name == _TOPICS:
            yield from _topic_pages(tree)
        else:
            yield from _module_pages(_module_name(name), tree)


def _sources(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIPPED_PARTS and not _private(name)]
        below = Path(folder).relative_to(root).as_posix().removeprefix(".")
        for file in files:
            name = f"{below}/{file}" if below else file
            if file.endswith(".py") and _documented(name) and (root / name).stat().st_size <= MAX_SOURCE_BYTES:
                yield name


def _documented(name: str) -> bool:
    if name in _ALIASED:
        return False
    return name.removesuffix(".py") in _ALIASES or not _private(name.rsplit("/", 1)[-1].removesuffix(".py"))


def _private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _module_name(name: str) -> str:
    parts = name.removesuffix(".py").split("/")
    module = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
    return _ALIASES.get(module, module)


def _module_pages(module: str, tree: ast.Module) -> Iterator[PageDraft]:
    docstring = clean(ast.get_docstring(tree))
    members = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    shown = _public(members, _declared(tree))
    sections = [
        (node, render_class(node) if isinstance(node, ast.ClassDef) else render_function(node)) for node in shown
    ]
    sections = [(node, text) for node, text in sections if text]
    if not docstring and not sections:
        return
    summary = docstring.split("\n", 1)[0].strip()
    title = f"{module} module"
    head = f"{module}: {summary}\n\n{docstring}" if docstring else f"{module}"
    whole = "\n\n".join([head, *(text for _, text in sections)])
    if len(whole) <= SPLIT_CHARS:
        yield PageDraft(module, title, whole)
        return
    index = "\n".join(f"- {_summary_line(node)}" for node, _ in sections)
    yield PageDraft(module, title, f"{head}\n\nContents of {module}:\n{index}" if index else head)
    for node, text in sections:
        what = "class" if isinstance(node, ast.ClassDef) else "function"
        full = f"{module}.{node.name}"
        yield PageDraft(full, f"{full} ({what})", f"{full}, a {what} of the module {module}.\n\n{text}")


def _declared(tree: ast.Module) -> frozenset[str]:
    """The names in a literal ``__all__``, empty when there is none."""
    names: set[str] = set()
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        )
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            continue
        value = node.value if isinstance(node, ast.Assign | ast.AugAssign) else None
        if isinstance(value, ast.List | ast.Tuple):
            names.update(
                item.value for item in value.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)
            )
    return frozenset(names)


def _public(
    members: list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef], declared: frozenset[str]
) -> list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """One node a name, the last definition winning; private names only where ``__all__`` lists them."""
    last = {node.name: node for node in members if not node.name.startswith("_") or node.name in declared}
    return list(last.values())


def _summary_line(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first = clean(ast.get_docstring(node)).split("\n", 1)[0].strip()
    name = f"class {node.name}" if isinstance(node, ast.ClassDef) else signature(node)
    return f"{name}: {first}" if first else name


def _topic_pages(tree: ast.Module) -> Iterator[PageDraft]:
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if not isinstance(value, ast.Dict):
            continue
        for key, text in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield _topic_page(str(key.value), text.value)


def _topic_page(name: str, text: str) -> PageDraft:
    lines = text.strip().splitlines()
    heading = next((line.strip().strip('"') for line in lines if line.strip() and set(line.strip()) != {"*"}), name)
    title = f"{heading[:100]} (Python language, topic {name})"
    return PageDraft(f"topics/{name}", title, clean(text))


def _loaded() -> list[tuple[types.ModuleType, str]]:
    return [(sys.modules[name], public) for name, public in C_MODULES.items() if name in sys.modules]


def _c_pages(module: types.ModuleType, public: str) -> Iterator[PageDraft]:
    """What is written in C: a page for the module, for each class and, where there are many, for each function."""
    functions: dict[str, str] = {}
    errors: list[str] = []
    for name, value in sorted(vars(module).items()):
        document = getattr(value, "__doc__", None)
        if name.startswith("_") or not isinstance(document, str) or not document:
            continue
        if isinstance(value, type) and issubclass(value, BaseException):
            errors.append(f"exception {name}({value.__base__.__name__ if value.__base__ else ''})\n{clean(document)}")
        elif isinstance(value, type):
            yield _c_class(value, name, public)
        elif callable(value):
            functions[name] = _c_text(name, value, document)
    if public == "builtins":
        yield PageDraft("builtins.exceptions.c", "Built-in exceptions", "\n\n".join(errors))
    head = f"{public}: {clean(module.__doc__)}"
    title = f"{public} built-in functions"
    whole = "\n\n".join([head, *functions.values()])
    if len(whole) <= SPLIT_CHARS:
        yield PageDraft(f"{public}.c", title, whole)
        return
    index = "\n".join(f"- {text.splitlines()[0]}" for text in functions.values())
    yield PageDraft(f"{public}.c", title, f"{head}\n\nFunctions:\n{index}")
    for name, text in functions.items():
        full = name if public == "builtins" else f"{public}.{name}"
        yield PageDraft(f"{public}.{name}.c", f"{full} (built-in function)", f"{full}, a built-in function.\n\n{text}")


def _c_class(value: type, name: str, public: str) -> PageDraft:
    methods = [
        _c_text(f"{name}.{key}", member, member.__doc__)
        for key, member in sorted(vars(value).items())
        if not key.startswith("_") and isinstance(getattr(member, "__doc__", None), str)
    ]
    full = name if public == "builtins" else f"{public}.{name}"
    text = "\n\n".join([f"class {full}\n{clean(value.__doc__)}", *methods])
    return PageDraft(f"{public}.{name}.c", f"{full} (built-in class)", text)


def _c_text(name: str, value: object, document: str) -> str:
    arguments = getattr(value, "__text_signature__", None)
    shown = str(arguments).replace("$self, ", "").replace("$module, ", "").replace("($self)", "()") if arguments else ""
    return f"{name}{shown}\n{clean(document)}"
