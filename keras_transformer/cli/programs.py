"""Flags, one-line errors and the `--json` summary of all programs."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from absl import app, flags
from absl import logging as absl_logging

from keras_transformer import atomic_files
from keras_transformer.cli import startup, xla_cache

# Errors of bad input. Any other error is a defect and keeps its traceback.
INPUT_ERRORS = (ValueError, TypeError, OSError)

_LONGEST_REASON = 200

_JSON = flags.DEFINE_bool(
    "json", False, "Print a summary as one line of JSON, the last on standard output."
)


def run(
    main: Callable[..., Mapping[str, Any] | None],
    *,
    has_other_options: bool = False,
    may_be_urls: Collection[flags.FlagHolder] = (),
) -> None:
    """Parse the flags, call `main` and exit: 0, or 1 after one line about bad input.

    `main` reads its flags and returns the summary that `--json` prints. SIGTERM and
    SIGHUP end it like an error, so that its temporary files are deleted.

    Args:
        main: Takes no arguments, or with `has_other_options` a list of strings.
        has_other_options: Whether `main` gets the arguments that are not flags of the
            program, in their order, to pass them on to a library.
        may_be_urls: Flags that are no paths, or paths that a library reads from other
            machines too. Every other flag is refused if its value begins as a URL.
    """
    module = sys.modules[main.__module__]
    program = os.path.basename(sys.argv[0])

    def guarded(arguments):
        if len(arguments) > 1 and not has_other_options:
            _fail(
                program, f"unexpected argument {arguments[1]!r}; flags begin with --."
            )
        _set_verbosity()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # `nohup` ignores SIGHUP
                signal.signal(number, lambda number, frame: sys.exit(128 + number))
        try:
            _check_local(may_be_urls)
            summary = main(arguments[1:]) if has_other_options else main()
            if _JSON.value:
                print(json.dumps(summary, ensure_ascii=False))
            sys.stdout.flush()
        except INPUT_ERRORS as error:
            if isinstance(error, BrokenPipeError) and error.filename is None:
                _exit(128 + signal.SIGPIPE)  # the reader of standard output has ended
            absl_logging.debug("Seen with --verbosity=1:", exc_info=True)
            _fail(program, _message(error))
        except (KeyboardInterrupt, SystemExit) as error:
            for note in getattr(error, "__notes__", ()):
                print(f"{program}: {note}", file=sys.stderr)
            is_interrupt = isinstance(error, KeyboardInterrupt)
            _exit(128 + signal.SIGINT if is_interrupt else error.code)
        except Exception as error:
            if (problem := _problem_of_machine(error)) is None:
                raise
            absl_logging.debug("Seen with --verbosity=1:", exc_info=True)
            _fail(program, problem)
        _leave_compiler(0)
        # Skips the search for cycles at exit, which takes half a second.
        gc.freeze()

    def parse(arguments):
        _show_help_of(module)
        try:
            # With "--option value" of a library, parsing must not stop at "value".
            flags.FLAGS.set_gnu_getopt(has_other_options)
            return flags.FLAGS(arguments, known_only=has_other_options)
        except flags.Error as error:
            _fail(program, f"{_message(error)} (see --help)")
        except (SystemExit, BrokenPipeError):
            _exit(0)  # after --help, which absl counts as a failure

    _check_streams(program)
    app.run(guarded, flags_parser=parse)


def check_given(*needed: flags.FlagHolder) -> None:
    """Raise ValueError unless all of these flags have a value."""
    for flag in needed:
        if flag.value is None:
            raise ValueError(f"--{flag.name} is needed.")


def check_output(output: flags.FlagHolder, *inputs: flags.FlagHolder) -> None:
    """Raise ValueError if the file to write is a folder, or one of those to read."""
    path = output.value
    if path and os.path.isdir(path):
        raise ValueError(f"--{output.name} names a folder, {path}. Name a file.")
    for flag in inputs:
        # Standard input and output may be the same terminal.
        are_files = all(name and os.path.isfile(name) for name in (path, flag.value))
        if are_files and os.path.samefile(path, flag.value):
            raise ValueError(
                f"--{output.name} would overwrite the file of --{flag.name}, {path}. "
                "Name another file."
            )


@contextlib.contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Turn a package that is not installed into a ValueError that says what to do.

    Args:
        extra: The extra of this package that installs it.
        what: What needs it: the beginning of the message.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{what} needs {error.name}: install keras_transformer[{extra}]."
        ) from error


def _check_local(may_be_urls: Collection[flags.FlagHolder]) -> None:
    """Raise ValueError if a flag has the path of a file on another machine."""
    for name in sorted(set(flags.FLAGS) - {flag.name for flag in may_be_urls}):
        value = flags.FLAGS[name].value
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str):
                atomic_files.check_is_local(each, f"--{name}")


def _check_streams(program: str) -> None:
    """Refuse a closed standard output; reopen other closed streams as /dev/null.

    Otherwise the next file that is opened gets the number of a closed stream, and
    libraries write their messages into it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is None:
        _fail(program, "standard output is closed. Redirect it, perhaps to /dev/null.")


def _set_verbosity() -> None:
    """Apply --verbosity to TensorFlow too, which is silent by default."""
    verbosity = flags.FLAGS["verbosity"]
    if not verbosity.present:
        # Absl would also print internal messages of TensorFlow.
        absl_logging.set_verbosity(absl_logging.WARNING)
        return
    level = min(max(-verbosity.value, 0), 3)
    os.environ.setdefault(startup.LOG_LEVEL, str(level))


def _fail(program: str, message: str) -> None:
    print(f"{program}: {message}", file=sys.stderr, flush=True)
    _exit(1)


def _exit(status: Any) -> None:
    """Exit; drop output that cannot be written, else Python tries to write it again."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    _leave_compiler(status)
    sys.exit(status)


def _leave_compiler(status: Any) -> None:
    """End this process at once if it would wait for a program of XLA otherwise."""
    beside = sys.modules.get("keras_transformer.translation.compiling_beside")
    if beside is not None and beside.is_compiling() and isinstance(status, int):
        os._exit(status)


def _problem_of_machine(error: Exception) -> str | None:
    """Return what is wrong with memory or disk, if that is why TensorFlow failed."""
    message = _message(error)
    kept = xla_cache.folder()
    if kept and kept in message:
        return (
            f"programs of XLA cannot be kept in {kept} ({_shortened(message)}). Make "
            "room on that disk, or delete the folder."
        )
    # By its name: TensorFlow may not be imported.
    is_exhausted = type(error).__name__ == "ResourceExhaustedError"
    if not is_exhausted or "No space left" in message:  # on a disk
        return None
    lower = "lower --batch_size, or " if "batch_size" in flags.FLAGS else ""
    return (
        f"out of memory: {lower}end other programs on this device "
        f"({_shortened(message)})."
    )


def _shortened(message: str) -> str:
    """Return the beginning of a message of TensorFlow, which may go on for pages."""
    return textwrap.shorten(message, _LONGEST_REASON, placeholder=" ...")


def _message(error: BaseException) -> str:
    message = str(error)
    if isinstance(error, OSError) and error.errno is not None:
        message = f"{error.strerror}: {error.filename}" if error.filename else message
    message = " ".join([message, *getattr(error, "__notes__", ())])
    return " ".join(message.split()) or type(error).__name__


def _show_help_of(module: Any) -> None:
    """Let --help show the flags of `module`, also when a console script runs it."""
    main_module = sys.modules["__main__"]
    main_module.__doc__ = module.__doc__
    for flag in flags.FLAGS.get_key_flags_for_module(module.__name__):
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS["json"])
