"""No function is longer than a screen or takes more arguments than can be read."""

import ast

MAX_LINES = 60
MAX_PARAMETERS = 8
# A search's settings are all its own; TensorFlow has no place to bundle them.
MANY_PARAMETERS = {
    "decoding/beam_search.py beam_search",
}


def functions(repository):
    """Yield (file and name, node) of every function in the package and programs."""
    for folder in ("keras_transformer", "bin", "export", "examples"):
        for path in sorted((repository / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    name = path.relative_to(repository).as_posix()
                    yield f"{name.removeprefix('keras_transformer/')} {node.name}", node


def num_lines(node):
    """Lines of a function without its docstring."""
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        lines -= node.body[0].end_lineno - node.body[0].lineno + 1
    return lines


def num_parameters(node):
    """Parameters of a function, `self` and `cls` not counted."""
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    count = sum(argument.arg not in ("self", "cls") for argument in named)
    return count + bool(given.vararg) + bool(given.kwarg)


def test_functions_fit_on_a_screen(repository):
    long = [name for name, node in functions(repository) if num_lines(node) > MAX_LINES]
    assert not long


def test_functions_take_few_arguments(repository):
    many = {
        name
        for name, node in functions(repository)
        if num_parameters(node) > MAX_PARAMETERS
    }
    assert many <= MANY_PARAMETERS


def test_programs_import_only_those_that_others_are_for(repository):
    """Robustness starts and measures what benchmarks start and measure."""
    may = {"robustness": {"benchmarks"}}
    folders = {"bin", "export", "benchmarks", "robustness", "examples"}
    for folder in folders:
        for path in (repository / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [getattr(node, "module", None) or ""]
                if isinstance(node, ast.Import):
                    names = [each.name for each in node.names]
                elif not isinstance(node, ast.ImportFrom):
                    continue
                found = {name.split(".")[0] for name in names} & folders
                assert found <= {folder} | may.get(folder, set()), path
