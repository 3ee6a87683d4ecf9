"""The notebook that is graded: the instructor's lab, with a learner's answer cells in place of its own.

Which cells are a learner's answer to a task
    1. The cell that counts is the first that defines a function of the task's name and is not the lab's own stub:
       first among the cells whose metadata name the task, then, for notebooks that lost their metadata, among all.
    2. Cells whose metadata name the task and that do not define its function come along, as they may have been split
       off from it. A second definition does not: it is named in the feedback, not graded.
    3. Where nothing but the stub is left, the stub is graded, as not attempted. Where not even that is left, the
       answer cell is missing.
Nothing else is taken: no prediction, no cell that the learner added, no change to the lab's own cells.

Which of the lab's own cells run
    Those tagged "setup" or "parameters", and what papermill put below the latter, whole; and of those before its
    first answer or prediction, where a lab has its imports and its seed, the statements that share a name with an
    answer. Explorers, checks, plots and measurements show things to people: here they would cost seconds for each
    notebook and could only go wrong. Importing torch for an answer that does not mention it takes longer than all
    the rest.
"""

import ast
import re
from dataclasses import dataclass

from aiinfra.grading.execution.package_use import imported_names, package_use, parse
from aiinfra.grading.intake.notebooks import MAX_CELL_CHARS

_SETUP = {"setup", "parameters", "injected-parameters"}
_LEARNERS = {"answer", "prediction"}
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Answer:
    """A learner's cells for one task. `note` is a remark on how they were found; `package` a use of the package."""

    cells: tuple[str, ...]
    note: str = ""
    package: str | None = None

    @property
    def source(self):
        return "\n\n".join(cell.strip("\n") for cell in self.cells)


@dataclass(frozen=True)
class Assembled:
    """`setup`: sources of the lab's own cells. `answers`: an Answer by task, in the lab's order."""

    setup: tuple[str, ...]
    answers: dict[str, Answer]


def assemble(lab, learner, names):
    """The `Assembled` notebook from the code cells of the `lab` and of the `learner`, for the tasks `names`."""
    answers = {name: _answer(name, lab, learner) for name in names}
    own = [cell for cell in lab if not _LEARNERS & set(cell["tags"])]
    answers = _mark_package_use(answers, own)
    return Assembled(_needed(_setup(lab), [answer.source for answer in answers.values()]), answers)


def _answer(name, lab, learner):
    stubs = {_squeezed(cell["source"]) for cell in lab if cell["metadata"].get("task") == name}
    tagged = [cell["source"] for cell in learner if cell["metadata"].get("task") == name]
    every = [cell["source"] for cell in learner]
    defining = [source for source in tagged if defines(source, name)] or [
        source for source in every if defines(source, name)
    ]
    written = [source for source in defining if _squeezed(source) not in stubs]
    chosen = (written or defining)[:1]
    helpers = [source for source in tagged if source.strip() and not defines(source, name)]
    cells = tuple(source for source in every if source in chosen or source in helpers)
    cells = tuple(dict.fromkeys(cells))
    if any(len(source) > MAX_CELL_CHARS for source in cells):
        return Answer((), f"The answer cell has more than {MAX_CELL_CHARS:,} characters and was not run.")
    note = ""
    if len(set(written)) > 1:
        note = f"{len(set(written))} cells define {name}; the first of them was graded."
    elif written and not tagged:
        note = f"The answer cell had lost its label; it was found by the name {name}."
    return Answer(cells, note)


def _squeezed(source):
    return "".join(source.split())


def defines(source, name):
    """Whether a cell binds `name` at its top level by def, class or assignment; it is read, not run."""
    if name not in source:
        return False
    tree = parse(source) if len(source) <= MAX_CELL_CHARS else None
    if tree is None:  # a syntax error somewhere; the attempt counts as one
        return re.search(rf"^(async\s+)?def\s+{re.escape(name)}\b", source, re.MULTILINE) is not None
    for statement in tree.body:
        if getattr(statement, "name", None) == name:
            return True
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return True
    return False


def _mark_package_use(answers, own):
    """`answers`, each with the use it makes of the package, be it through names that other cells imported."""
    trees = {cell: parse(cell) for answer in answers.values() for cell in answer.cells}
    everyone = [tree for tree in [parse(cell["source"]) for cell in own] + list(trees.values()) if tree]
    names = set().union(*(imported_names(tree) for tree in everyone))
    marked = {}
    for name, answer in answers.items():
        uses = [package_use(trees[cell], names) for cell in answer.cells if trees[cell]]
        marked[name] = Answer(answer.cells, answer.note, next((use for use in uses if use), None))
    return marked


def _setup(lab):
    """(source, whether it runs whole) of the lab's own cells that prepare for the answers."""
    setup, opening = [], True
    for cell in lab:
        tags = set(cell["tags"])
        opening = opening and not _LEARNERS & tags
        if "measurement" not in tags and not _LEARNERS & tags and (opening or _SETUP & tags):
            setup.append((cell["source"], bool(_SETUP & tags)))
    return setup


def _needed(setup, answers):
    """The sources of `setup` with the statements that share a name with an answer, or with one that does."""
    cells = [(source, None if whole else parse(source)) for source, whole in setup]
    names = set(_WORD.findall("\n".join(answers)))
    statements = [node for _, tree in cells if tree for node in tree.body]
    kept: set[int] = set()
    while more := [node for node in statements if id(node) not in kept and _binds_or_uses(node) & names]:
        kept |= {id(node) for node in more}
        names = names.union(*(_binds_or_uses(node) for node in more if not _is_import(node)))
    sources = []
    for source, tree in cells:
        body = [_fewer(node, names) for node in tree.body if id(node) in kept] if tree else []
        sources.append("\n".join(ast.unparse(node) for node in body) if tree else source)
    return tuple(source for source in sources if source.strip())


def _is_import(node):
    return isinstance(node, ast.Import | ast.ImportFrom)


def _bound(alias):
    return alias.asname or alias.name.split(".")[0]


def _binds_or_uses(node):
    return {_bound(alias) for alias in node.names} if _is_import(node) else set(_WORD.findall(ast.unparse(node)))


def _fewer(node, names):
    """An import with those of its names alone that are needed."""
    if isinstance(node, ast.Import):
        return ast.Import([alias for alias in node.names if _bound(alias) in names])
    if isinstance(node, ast.ImportFrom):
        return ast.ImportFrom(node.module, [alias for alias in node.names if _bound(alias) in names], node.level)
    return node
