"""A run of real processes for the tests: one ps_master, and Python workers that run small scripts."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

# Who starts tests in the background has them ignore Ctrl-C, and so would every worker.
signal.signal(signal.SIGINT, signal.default_int_handler)

TOKEN = "a-token-for-tests"
LONG = 60

PREAMBLE = """
import json, os, signal, socket, sys, threading, time
import numpy as np
import shoal
def tell(**fields):
    print(json.dumps(fields), flush=True)
"""


def program(name):
    """A built program: named by SHOAL_PS_MASTER and the like, in SHOAL_BIN_DIR, or the newest in the target folders."""
    if named := os.environ.get(f"SHOAL_{name.upper()}"):
        return named
    root = Path(__file__).resolve().parents[2]
    folders = [os.environ.get("SHOAL_BIN_DIR")]
    for target in (os.environ.get("CARGO_TARGET_DIR"), root / "target"):
        folders += [Path(target) / "debug", Path(target) / "release"] if target else []
    found = [Path(f) / name for f in folders if f and (Path(f) / name).is_file()]
    if not found:
        pytest.skip(f"{name} has not been built; `cargo build --bins` builds it, or set SHOAL_{name.upper()}")
    return str(max(found, key=lambda file: file.stat().st_mtime))


class Process:
    """One process; it ends with its owner at the latest."""

    def __init__(self, name, folder, argv, env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SHOAL_") and k not in ("RANK", "WORLD_SIZE")}
        self.name = name
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            env = {**clean, "SHOAL_TOKEN": TOKEN, **env}
            self.child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=folder)

    def told(self):
        """What the worker told, in order."""
        lines = [line for line in self.out.read_text().splitlines() if line.startswith("{")]
        return [json.loads(line) for line in lines]

    def until(self, wanted, seconds=LONG):
        """Waits until something that it told satisfies `wanted`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            over = self.child.poll() is not None
            for line in self.told():
                if wanted(line):
                    return line
            assert not over, f"{self.name} ended\n{self.err.read_text()}"
            time.sleep(0.01)
        raise AssertionError(f"{self.name} told only {self.told()}\n{self.err.read_text()}")

    def end(self, seconds=LONG):
        """The exit code."""
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end; it told {self.told()}\n{self.err.read_text()}") from None

    def interrupt(self):
        self.child.send_signal(signal.SIGINT)

    def kill(self):
        self.child.kill()
        self.child.wait()


class Gang:
    """A master for `workers` workers; use it as a fixture (see conftest.py)."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    def start(self, scripts, servers=0, **settings):
        """Starts a master, servers, and a worker for each script, rank by rank; settings become SHOAL_* variables."""
        argv = [program("ps_master"), "--address", "tcp://127.0.0.1:0", "--workers", str(len(scripts))]
        argv += ["--servers", str(servers)]
        master = Process("master", self.folder, argv, {})
        self.processes.append(master)
        end = time.monotonic() + LONG
        while "listening on tcp://" not in master.err.read_text():
            assert master.child.poll() is None and time.monotonic() < end, master.err.read_text()
            time.sleep(0.01)
        self.address = "tcp://" + master.err.read_text().split("listening on tcp://")[1].split()[0]
        env = {"SHOAL_MASTER_ADDRESS": self.address, "SHOAL_CONNECT_TIMEOUT": str(LONG)}
        env.update({f"SHOAL_{name.upper()}": str(value) for name, value in settings.items()})
        self.env = env
        for number in range(servers):
            argv = [program("ps_server"), "--master_address", self.address, "--id", str(number)]
            self.processes.append(Process(f"server{number}", self.folder, argv, {}))
        return [self.add(f"worker{rank}", rank, script) for rank, script in enumerate(scripts)]

    def add(self, name, rank, script, **settings):
        """One more worker."""
        code = PREAMBLE + textwrap.dedent(script)
        env = {**self.env, **{f"SHOAL_{key.upper()}": str(value) for key, value in settings.items()}}
        argv = [sys.executable, "-u", "-c", code]
        worker = Process(name, self.folder, argv, {**env, "SHOAL_CLIENT_ID": str(rank)})
        self.processes.append(worker)
        return worker

    def run(self, workers, script, **settings):
        """The same script in all workers, to its good end; what each told, as one dict."""
        started = self.start([script] * workers, **settings)
        for worker in started:
            assert worker.end() == 0, f"{worker.name}: {worker.err.read_text()}"
        return [{k: v for line in worker.told() for k, v in line.items()} for worker in started]

    def close(self):
        for process in self.processes:
            process.kill()
