"""Start several workers of one training on this machine, to try multi-worker runs.

    python bin/launch_local_workers.py --num_workers=2 -- bin/train.py --preset=tiny \
        --data_dir=data/small --model_dir=runs/small

starts the command in that many processes, sets TF_CONFIG for each, adds
--distribution=multi_worker, and prints their lines with the worker's number in front.
If one fails, the others are stopped; Ctrl-C, SIGTERM and SIGHUP are sent to all. On a
cluster a scheduler does this: see docs/how_to/several_machines.md.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer.cli import programs

_NUM_WORKERS = flags.DEFINE_integer(
    "num_workers", 2, "Processes to start.", lower_bound=1
)
_GRACE_SECONDS = flags.DEFINE_integer(
    "grace_seconds",
    60,
    "Seconds that the other workers get to end when one has failed.",
    lower_bound=0,
)


def main(command: list[str]) -> dict:
    """Run the workers; exit with the status of the first that failed."""
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise ValueError(
            "the command of the workers is missing. Give it after --num_workers, such "
            "as: --num_workers=2 -- bin/train.py --preset=tiny --data_dir=DATA "
            "--model_dir=RUN."
        )
    if command[0].endswith(".py"):
        command = [sys.executable, *command]
    cluster = {"worker": [f"localhost:{port}" for port in free_ports()]}
    workers: list[subprocess.Popen] = []
    signals: list[int] = []

    def pass_on(number, frame):
        signals.append(number)
        send(workers, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
    for number in range(_NUM_WORKERS.value):
        workers.append(start(command, cluster, number))
    printers = [
        threading.Thread(target=copy_lines, args=(number, worker))
        for number, worker in enumerate(workers)
    ]
    for printer in printers:
        printer.start()
    failed = wait(workers, _GRACE_SECONDS.value, signals)
    for printer in printers:
        printer.join()
    if failed:
        statuses = ", ".join(str(worker.returncode) for worker in workers)
        print(f"the workers ended with {statuses}", flush=True)
        # A process that a signal ended has the status -number; shells use 128 + number.
        sys.exit(failed if failed > 0 else 128 - failed)
    return {"num_workers": len(workers)}


def free_ports() -> list[int]:
    """Return a free port for each worker."""
    holders = [socket.socket() for _ in range(_NUM_WORKERS.value)]
    for holder in holders:
        holder.bind(("localhost", 0))
    ports = [holder.getsockname()[1] for holder in holders]
    for holder in holders:
        holder.close()
    return ports


def start(command: list[str], cluster: dict, number: int) -> subprocess.Popen:
    """Start a worker in its own process group, so that only this program signals it."""
    task = {"type": "worker", "index": number}
    return subprocess.Popen(
        [*command, "--distribution=multi_worker"],
        env={**os.environ, "TF_CONFIG": json.dumps({"cluster": cluster, "task": task})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def copy_lines(number: int, worker: subprocess.Popen) -> None:
    """Print a worker's lines as they come."""
    for line in worker.stdout:
        print(f"[{number}] {line}", end="", flush=True)


def send(workers: list[subprocess.Popen], number: int) -> None:
    """Send a signal to the workers that are running."""
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(number)


def wait(
    workers: list[subprocess.Popen], grace_seconds: float, signals: list[int]
) -> int:
    """Wait until all have ended; return the status of the first that failed, or 0.

    After one has failed, the others are killed when `grace_seconds` have passed, unless
    a signal has asked all of them to end: then each may take its time to save.
    """
    failed, kill_at = 0, None
    while True:
        statuses = [worker.poll() for worker in workers]
        failed = failed or next(filter(None, statuses), 0)
        if None not in statuses:
            return failed
        if failed and kill_at is None and not signals:
            kill_at = time.monotonic() + grace_seconds
        if kill_at is not None and time.monotonic() > kill_at:
            send(workers, signal.SIGKILL)
        time.sleep(0.1)


def run() -> None:
    """Run as a console script."""
    programs.run(main, has_other_options=True)


if __name__ == "__main__":
    run()
