"""A model given as a class or function, as `FILE.py:NAME`: other processes load it from its file.

What was defined in a notebook's cell has no file. It is written out where that is safe: its source is known, and every
name it uses is its own, a builtin, or a module or a part of one that can be imported again. Otherwise: an error that
says what stands in the way and what to write.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import linecache
import os
import re
import symtable
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from ._cells import is_as_written, write_out
from ._errors import ModelNotInFile

__all__ = ["ENTRY", "changed", "edited", "target_of"]


class Use(NamedTuple):
    """What it is for, in words."""

    who: str
    """Who loads it."""
    what: str


SEPARATOR = "\n\n"
"""Between the imports and the source, in a file."""

MODEL = Use("workers", "model")
ENTRY = Use("jobs", "function")


def target_of(model: Any, use: Use = MODEL) -> str:
    """The model, or a run's entry, as the program takes it."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if not (inspect.isclass(model) or inspect.isfunction(model)):
        raise ModelNotInFile(
            f"{model!r} is no model: give a class, a function or the text FILE.py:NAME. "
            "Each worker makes an object of its own, so an object cannot be given"
        )
    name = model.__name__
    if name == "<lambda>":
        raise ModelNotInFile(f"a lambda has no name by which {use.who} could find it; define the {use.what} with `def`")
    if model.__qualname__ != name:
        raise ModelNotInFile(
            f"{model.__qualname__} is defined inside something else, where {use.who} cannot find it; "
            "move it to the top level of a file"
        )
    module = sys.modules.get(model.__module__)
    file = getattr(module, "__file__", None)
    if file is None or not os.path.isfile(file):
        return _from_cell(model, use)
    if model.__module__ == "__main__":
        _refuse_unguarded(file, name, use)
    else:
        _refuse_relative(file, name, model.__module__, use)
    return f"{os.path.abspath(file)}:{name}"


def _refuse_unguarded(file: str, name: str, use: Use) -> None:
    """Other processes import the script. A call that is not guarded would be made again in each of them."""
    frame = inspect.currentframe()
    line = None
    while frame is not None:
        if frame.f_globals.get("__name__") == "__main__" and frame.f_code.co_name == "<module>":
            line = frame.f_lineno
        frame = frame.f_back
    if line is None:
        return
    for statement in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        inside = statement.lineno <= line <= (statement.end_lineno or statement.lineno)
        if inside and not (isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test)):
            raise ModelNotInFile(
                f"{use.who} import {file} to find {name}, and would come to this very call (line {line}); "
                f'put it under `if __name__ == "__main__":`, or the {use.what} into a file of its own'
            )


def _refuse_relative(file: str, name: str, module: str, use: Use) -> None:
    """Other processes load the file by itself, not as a part of its package."""
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level > 0:
            raise ModelNotInFile(
                f"{file} imports from its own package (line {node.lineno}), and {use.who} load it by itself. Write a "
                f"file, say {use.what}.py, with the line `from {module} import {name}`, and give '{use.what}.py:{name}'"
            )


def _from_cell(model: Any, use: Use) -> str:
    """Writes the model of a cell to a file."""
    name = model.__name__
    source = _source(model)
    if source is None:
        magic = "; a cell magic such as %%time on top of its cell hides it, so define it in a cell without one"
        why = magic if _in_ipython() else ""
        raise ModelNotInFile(f"{name} is in no file, and its source is not known here{why}. {_advice(name, use)}")
    imports, unsafe = _imports(source, vars(sys.modules["__main__"]))
    if unsafe:
        where = (
            "in a cell and uses what only this notebook"
            if _in_ipython()
            else "in no file and uses what only this Python"
        )
        raise ModelNotInFile(f"{name} is defined {where} has: {', '.join(unsafe)}. {_advice(name, use)}")
    return f"{write_out(f'{_file_name(name)}.py', f'{imports}{SEPARATOR}{source}')}:{name}"


def changed(cells: Mapping[str, str]) -> List[str]:
    """Those that the notebook now has otherwise than they were written out."""
    known = vars(sys.modules["__main__"])
    return [name for name, file in cells.items() if name in known and not _is_in(known[name], file)]


def edited(cells: Mapping[str, str]) -> List[str]:
    """Files that are not what was written out, and cannot be set right because the notebook has something else now."""
    found = []
    for name, file in cells.items():
        if not is_as_written(Path(file)):
            with contextlib.suppress(Exception):  # It is told as edited.
                target_of(vars(sys.modules["__main__"])[name])
            if not is_as_written(Path(file)):
                found.append(file)
    return found


def _is_in(model: Any, file: str) -> bool:
    """Whether that is what the file has. The notebook's names and what it imports may be others by now."""
    try:
        source = _source(model) if inspect.isclass(model) or inspect.isfunction(model) else None
        return source is not None and f"{SEPARATOR}{source}\n" in Path(file).read_text(encoding="utf-8")
    except Exception:
        return True  # Not known, and no reason not to go on.


def _advice(name: str, use: Use) -> str:
    file = f"{_file_name(name)}.py"
    all_of_it = f"the {use.what} and everything it uses, imports too,"
    put = f"Put {all_of_it} into a file {file}"
    if _in_ipython():
        put = f"Put the line `%%writefile {file}` on top of a cell with {all_of_it} run it,"
    who = f"{use.who.capitalize()} are other processes and load their {use.what} from a file"
    return f"{who}. {put} and give '{file}:{name}'"


def _in_ipython() -> bool:
    return hasattr(builtins, "get_ipython")


def _file_name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _source(model: Any) -> Optional[str]:
    """The definition as it stands in its cell, decorators included. IPython keeps the cells it has run where Python
    looks for source lines, by the file name that their code carries."""
    for file in _files(model):
        text = "".join(linecache.getlines(file))
        try:
            body = ast.parse(text).body
        except SyntaxError:
            continue
        kinds = (ast.ClassDef, ast.FunctionDef)
        for node in reversed([node for node in body if isinstance(node, kinds) and node.name == model.__name__]):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    return None


def _files(model: Any) -> Iterator[str]:
    """File names in the code of a function, or of a class's own methods: a wrapped one has its decorator's first."""
    members = vars(model).values() if inspect.isclass(model) else [model]
    for member in members:
        inner = inspect.unwrap(getattr(member, "__func__", member))
        code = getattr(inner, "__code__", None)
        if isinstance(code, CodeType) and getattr(inner, "__module__", None) == "__main__":
            yield code.co_filename


def _imports(source: str, known: Any) -> Tuple[str, List[str]]:
    """The imports the source needs before it, and the names that cannot be had by importing."""
    lines, unsafe = [], []
    for name in sorted(_free(symtable.symtable(source, "<cell>", "exec"))):
        line = _import_of(name, known.get(name)) if name in known else None
        if line is not None:
            lines.append(line)
        elif not _is_builtin(name, known):
            unsafe.append(f"{name} (also behind `!` and `%`)" if name == "get_ipython" else name)
    return "\n".join(lines), unsafe


def _is_builtin(name: str, known: Any) -> bool:
    """Whether every Python has this under its name. IPython adds `display` and `get_ipython` to the builtins, and has
    an `open` of its own among the notebook's names."""
    if not hasattr(builtins, name) or name in ("display", "get_ipython"):
        return False
    stands_in = name == "open" and getattr(known.get(name), "__module__", "") != "__main__"
    return name not in known or stands_in or known[name] is getattr(builtins, name)


def _free(table: symtable.SymbolTable) -> Set[str]:
    """Names the source uses but does not bind."""
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    bound |= {"__name__", "__file__", "__doc__"}
    used: Set[str] = set()
    todo = [table]
    while todo:
        scope = todo.pop()
        todo += scope.get_children()
        used |= {
            symbol.get_name()
            for symbol in scope.get_symbols()
            if symbol.is_referenced() and (symbol.is_global() or scope is table)
        }
    return used - bound


def _import_of(name: str, value: Any) -> Optional[str]:
    """How another process gets the same object under this name, if it can."""
    if isinstance(value, ModuleType):
        path = value.__name__
        if path == "__main__" or sys.modules.get(path) is not value:
            return None
        return f"import {path}" if path == name else f"import {path} as {name}"
    module, inside = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(inside, str) or module == "__main__":
        return None
    if getattr(sys.modules.get(module), inside, None) is not value:
        return None
    return f"from {module} import {inside}" if inside == name else f"from {module} import {inside} as {name}"
