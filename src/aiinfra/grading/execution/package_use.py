"""Seeing that an answer cell leans on the package, whose own functions are the answers.

This reads the source of answer cells; it does not run it. It names what it finds for the feedback page. That nothing
is earned does not depend on it: inside the sandbox the package is masked (`inside/masked`), so a use that is written
cleverly enough to get by unnamed still gets no answer.

An answer cell may not import `aiinfra`, nor use in its functions or assignments a name that the lab imported from it.
A plain call beside the function, such as `check("accelerators", my_function)`, is fine: learners try their answers.
"""

import ast
import contextlib
import functools
import re
import symtable

PACKAGE = "aiinfra"
# Calls that import or run what their text says.
_IMPORTERS = {"__import__", "import_module", "find_spec", "run_module", "exec", "eval", "resolve_name"}
_MAGIC = re.compile(r"^([ \t]*)(?:[%!?].*|[\w.]+\?\??[ \t]*)$", re.MULTILINE)
_ASSIGNED_MAGIC = re.compile(r"=[ \t]*[%!].*$", re.MULTILINE)
_MODULE = re.compile(PACKAGE + r"(\.\w+)+")  # as a text, to be imported by it


@functools.lru_cache(maxsize=512)
def parse(source):
    """The syntax tree of a cell, with nothing in place of IPython's magics, or None where it has none.

    IPython's own translation is not used: a cell of ten thousand magics keeps it busy for most of a minute.
    """
    for text in (source, _ASSIGNED_MAGIC.sub("= None", _MAGIC.sub(r"\1pass", source))):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.parse(text)
    return None


def imported_names(tree):
    """The names that the cell binds by importing from the package."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(alias.asname or alias.name.split(".")[0]) for alias in node.names if _is_package(alias.name)}
        elif isinstance(node, ast.ImportFrom) and _is_package(node.module):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def package_use(tree, names=()):
    """The first use of the package in an answer cell as text, such as "import aiinfra.collectives", or None.

    tree : ast.AST     of the cell
    names : iterable   names that other cells imported from the package
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(_is_package(alias.name) for alias in node.names):
            return ast.unparse(node)[:80]
        if isinstance(node, ast.ImportFrom) and _is_package(node.module):
            return ast.unparse(node)[:80]
        if isinstance(node, ast.Call) and _called(node) in _IMPORTERS and PACKAGE in _text(node):
            return ast.unparse(node)[:80]
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE.fullmatch(node.value):
            return repr(node.value)
    return _name_use(tree, set(names))


def _is_package(module):
    return bool(module) and module.split(".")[0] == PACKAGE


def _called(call):
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", None)


def _text(node):
    """All text constants below `node` joined in their order, so that "ai" + "infra" is seen."""
    constants = [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
    in_order = sorted(constants, key=lambda part: (part.lineno, part.col_offset))
    return "".join(part.value for part in in_order if isinstance(part.value, str))


def _name_use(tree, names):
    """A use of one of `names` in the cell by anything but a plain call at its top level."""
    still = set(names)  # until the cell binds a name anew
    for statement in tree.body:
        loaded, stored = _names_at_top_level(statement)
        if loaded & still and not isinstance(statement, ast.Expr):
            return min(loaded & still)
        still -= stored
    inside = {
        symbol.get_name()
        for scope in _inner_scopes(tree)
        for symbol in scope.get_symbols()
        if symbol.is_global() and symbol.is_referenced()
    }
    return min(inside & still, default=None)


def _names_at_top_level(statement):
    """The names that a top-level statement loads and stores when it runs, without the bodies of functions."""
    loaded: set[str] = set()
    stored: set[str] = set()
    todo = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else stored).add(node.id)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            stored.add(node.name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            todo += [node.args, *node.decorator_list]
        elif isinstance(node, ast.Lambda):
            todo.append(node.args)
        else:
            todo += ast.iter_child_nodes(node)
    return loaded, stored


def _inner_scopes(tree):
    """The symbol tables of all functions and classes of a cell, at any depth."""
    try:
        todo = symtable.symtable(ast.unparse(tree), "cell", "exec").get_children()
    except (SyntaxError, RecursionError):  # it will not run either
        return
    while todo:
        scope = todo.pop()
        todo += scope.get_children()
        yield scope
