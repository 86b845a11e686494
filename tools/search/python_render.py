"""Python definitions as documentation text: signature, then docstring."""

from __future__ import annotations

import ast
import inspect

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def clean(docstring: str | None) -> str:
    """A docstring without its indentation; empty for None."""
    return inspect.cleandoc(docstring).strip() if docstring else ""


def signature(node: _Function) -> str:
    """``name(arguments) -> returns``, defaults and annotations as written."""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{prefix}{node.name}({ast.unparse(node.args)}){returns}"


def render_function(node: _Function, owner: str = "") -> str:
    """Signature and docstring, empty when there is no docstring."""
    docstring = clean(ast.get_docstring(node))
    name = f"{owner}.{signature(node)}" if owner else signature(node)
    return f"{name}\n{_indent(docstring)}" if docstring else ""


def render_class(node: ast.ClassDef) -> str:
    """Bases, docstring, then public methods with their docstrings; empty when nothing in it is documented."""
    docstring = clean(ast.get_docstring(node))
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    methods = [
        text
        for member in node.body
        if isinstance(member, _Function) and (not member.name.startswith("_") or member.name == "__init__")
        if (text := render_function(member, node.name))
    ]
    if not docstring and not methods:
        return ""
    head = f"class {node.name}({bases})" if bases else f"class {node.name}"
    return "\n\n".join(part for part in (f"{head}\n{_indent(docstring)}" if docstring else head, *methods))


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())
