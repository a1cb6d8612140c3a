"""Every place of a Python module that can be changed so that its meaning changes.

Left out: log calls, texts, docstrings, annotations, assertions, `if TYPE_CHECKING` and `__repr__`. What they say is not what the code promises.
"""

import ast
import re
from collections.abc import Iterator

from tests.mutation.mutant import Mutant

_COMPARISONS = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
_BOUNDARIES = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
_ARITHMETIC = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.BitOr: (r"\|", "&"),
    ast.BitAnd: ("&", "|"),
}
_LOGS = {"log", "logger", "logging", "warnings"}


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a module."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return finder.found


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name == "__repr__":
            return
        for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name that `ast` calls

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            return
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave assertions as they are: they state what cannot happen."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts as they are."""

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            for kind, table in (("comparison turned round", _COMPARISONS), ("boundary moved", _BOUNDARIES)):
                if found := table.get(type(operator)):
                    self._between(left, right, *found, kind=kind)
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        self._between(node.values[0], node.values[1], rf"\b{word}\b", other, kind="and/or exchanged")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace(node, f"({self._text(node.operand)})", kind="not removed")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if (found := _ARITHMETIC.get(type(node.op))) and not _is_text(node.left) and not _is_text(node.right):
            self._between(node.left, node.right, *found, kind="arithmetic changed")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call) and not _is_log(value):
            self._replace(node, "pass", kind="statement removed")
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace(node, "pass", kind="statement removed")
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._replace(node, "pass", kind="statement removed")

    def visit_Raise(self, node: ast.Raise) -> None:
        if node.exc is not None:
            self._replace(node, "pass", kind="raise removed")

    def visit_Return(self, node: ast.Return) -> None:
        match node.value:
            case None:
                self._replace(node, "pass", kind="return removed")
                return
            case ast.Constant(value=bool()):
                pass  # changed as a constant
            case ast.Constant(value=None):
                return
            case _:
                self._replace(node, "return None", kind="returns None")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value), kind="constant changed")
        elif isinstance(node.value, int | float):
            self._replace(node, f"({self._text(node)} + 1)", kind="constant changed")

    def _negate(self, test: ast.expr) -> None:
        if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            self._replace(test, f"(not ({self._text(test)}))", kind="condition negated")

    def _replace(self, node: ast.expr | ast.stmt, text: str, *, kind: str) -> None:
        self._note(node.lineno, kind, *self._span(node), text)

    def _between(self, left: ast.expr, right: ast.expr, pattern: str, text: str, *, kind: str) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        gap = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), self._source[start:end])
        if found := re.search(pattern.encode(), gap):
            line = left.end_lineno or left.lineno
            self._note(line, kind, start + found.start(), start + found.end(), text)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _note(self, line: int, kind: str, start: int, end: int, text: str) -> None:
        before = self._lines[line - 1].decode().strip()
        self.found.append(Mutant(self._path, line, kind, start, end, text, before))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_log(call: ast.Call) -> bool:
    function = call.func
    while isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name) and (function.id in _LOGS or function.id == "print")


def every_place(path: str, source: bytes) -> Iterator[Mutant]:
    """Yield the mutants of a module that still compile."""
    for mutant in mutants_of(path, source):
        try:
            compile(mutant.apply(source), path, "exec")
        except SyntaxError:
            continue
        yield mutant
