"""The grader on real notebooks in the real sandbox: good, broken and hostile ones."""

import contextlib
import copy
import csv
import ctypes
import functools
import json
import os
import platform
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

from aiinfra import cli
from aiinfra.checks import accelerators
from aiinfra.grading.execution.run import run
from aiinfra.grading.execution.sandbox import Limits
from aiinfra.grading.execution.warm import Warm
from aiinfra.grading.grade import Settings, grade, grade_all, load_lab
from aiinfra.grading.intake.submissions import Submission, find

ROOT = Path(__file__).parents[1]
LAB = ROOT / "labs" / "accelerators.ipynb"
ONE_WAY, RING = "one_way_bytes_per_s", "ring_all_reduce_s"
MARKER = f"86399.{os.getpid()}"  # seconds that only a process of this run sleeps
PATIENCE_S = 100
QUICK = Limits(cell_s=3, cell_clock_s=10, memory_bytes=3 << 29)

RIGHT = {
    ONE_WAY: "def one_way_bytes_per_s(n_links, link_gb_per_s):\n    return n_links * link_gb_per_s / 2 * 1e9",
    RING: "def ring_all_reduce_s(m, n, b, a):\n    return 2 * (n - 1) * (a + m / n / b)",
}
DIFFERENTLY_RIGHT = {
    ONE_WAY: "one_way_bytes_per_s = lambda n, gb: sum([gb * 5e8] * n)\ncheck('accelerators', one_way_bytes_per_s)",
    RING: "import math\n\ndef step(m, n, b, a):\n    return a + m / n / b\n\n"
    "def ring_all_reduce_s(*case):\n    return math.fsum([step(*case)] * (2 * case[1] - 2))",
}
MISCONCEIVED = {
    ONE_WAY: RIGHT[ONE_WAY].replace(" / 2", ""),
    RING: "def ring_all_reduce_s(m, n, b, a):\n    return 2 * (n - 1) / n * m / b",
}
NEVER_ENDING = {
    ONE_WAY: "import time\nwhile True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass",
    RING: RIGHT[RING],
}
FORGED = {
    ONE_WAY: f"""
import json, os, subprocess, sys
import IPython.display
def one_way_bytes_per_s(*case):
    print("✓ one_way_bytes_per_s: Right on all 6 inputs.")
    return 1.0
forged = json.dumps({{"nonce": "n", "task": "one_way_bytes_per_s", "outcomes": [{{"value": 1.0}}] * 6}})
IPython.display.display({{"application/x-aiinfra-outcomes": forged}}, raw=True)
for name in ("out.ipynb", "gradebook.csv", "results.json", "feedback.html"):
    for folder in (".", "/tmp", "/submission"):
        open(os.path.join(folder, name), "w").write("forged,10,10")
subprocess.Popen(["setsid", "sh", "-c", "sleep {MARKER} & while true; do echo 10 > gradebook.csv; sleep 0.1; done"])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "{MARKER}"])
    os._exit(0)
publish = type(get_ipython().display_pub).publish
type(get_ipython().display_pub).publish = lambda self, data, *more, **most: [publish(self, data) for _ in range(2)]
print("✓ right")
""",
    RING: """
import sys, json
json.dumps = lambda *a, **k: '{"right": true}'
outcome = plain = report = lambda *a: {"value": 1.0}
import aiinfra.checks
aiinfra.checks.judge = lambda *a: aiinfra.checks.Verdict("right", "Right.", 6, 6)
import papermill.execute
papermill.execute.execute_notebook = None
def ring_all_reduce_s(*case):
    return 1.0
import os
os._exit(0)
""",
}
SIX = {
    "right": RIGHT,
    "differently right": DIFFERENTLY_RIGHT,
    "empty": {},
    "misconceived": MISCONCEIVED,
    "never-ending": NEVER_ENDING,
    "forged": FORGED,
}


pytestmark = pytest.mark.usefixtures("sandbox")


@pytest.fixture(autouse=True)
def two_tasks(monkeypatch):
    """Grade two tasks of the lab, however many it has."""
    both = [task for task in accelerators.TASKS if task.name in (ONE_WAY, RING)]
    monkeypatch.setattr(accelerators, "TASKS", both)


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    before = {child.pid for child in psutil.Process().children()}  # the browser of other tests, for one
    yield
    gone(lambda: [child for child in psutil.Process().children() if child.pid not in before])
    gone(sleeping)
    assert list(scratch.iterdir()) == []


def gone(processes):
    """Wait until there are none of the `processes`; on a busy machine that takes a while after they are killed."""
    deadline = time.monotonic() + PATIENCE_S
    while processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes() == []


def sleeping():
    """Processes anywhere on this machine that a notebook of these tests started to outlive it."""
    found = [(process.info["pid"], process.info["cmdline"]) for process in psutil.process_iter(["pid", "cmdline"])]
    return [(pid, line) for pid, line in found if MARKER in " ".join(line or [])]


def write(path, answers):
    """The lab with `answers` by task as a student's notebook at `path`."""
    notebook = json.loads(LAB.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["metadata"].get("task"), cell["source"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def settings(limits=QUICK, isolated=True):
    return Settings(load_lab("accelerators", LAB), seed=7, limits=limits, isolated=isolated)


def graded(folder, notebooks, limits=QUICK):
    """Results by student of `notebooks`, answers by student, two at a time."""
    for student, answers in notebooks.items():
        write(folder / "in" / f"{student}.ipynb", answers)
    results = {}
    grade_all(find(folder / "in"), settings(limits), 2, lambda result: results.update({result.student: result}))
    return results


def statuses(result):
    return [(task.status, task.points) for task in result.tasks]


def probed(result):
    """What the function of the first task returned."""
    return result.tasks[0].outcomes[0]["value"]


def test_six_notebooks(tmp_path, monkeypatch):
    for student, answers in SIX.items():
        write(tmp_path / "in" / f"{student}.ipynb", answers)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("aiinfra.grading.grade.Settings", functools.partial(Settings, limits=QUICK))
    out = tmp_path / "out"
    line = f"grade {tmp_path / 'in'} --lab accelerators --out {out} --seed 7 --jobs 2"
    assert cli.main(line.split()) == 0
    rows = {row["student"]: row for row in csv.DictReader((out / "gradebook.csv").open(encoding="utf-8"))}
    got = {student: (row["points"], row[ONE_WAY], row[RING], row["remarks"]) for student, row in rows.items()}
    assert got == {
        "right": ("10", "4", "6", ""),
        "differently right": ("10", "4", "6", ""),
        "empty": ("0", "0", "0", "one_way_bytes_per_s: not attempted; ring_all_reduce_s: not attempted"),
        "misconceived": ("0", "0", "0", "one_way_bytes_per_s: both directions; ring_all_reduce_s: latency forgotten"),
        "never-ending": ("6", "0", "6", "one_way_bytes_per_s: Stopped: it did not end within 10 seconds."),
        "forged": (
            "0",
            "0",
            "0",
            "one_way_bytes_per_s: The answers could not be read: 2 reports where one was expected.; "
            "ring_all_reduce_s: uses the package's answer",
        ),
    }
    assert {row["status"] for row in rows.values()} == {"graded"}
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (out / "feedback").iterdir()}
    assert pages.keys() == SIX.keys()
    assert "A datasheet adds the two directions" in pages["misconceived"]
    assert "import aiinfra.checks" in pages["forged"]
    again = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert (again["seed"], again["sandbox"], len(again["students"])) == (7, "bubblewrap", 6)


LOOK = """
import ctypes, os, platform, socket, time
server = socket.socket(socket.AF_UNIX)
server.bind(b"\\0" + NAME.encode())
server.listen()
tcp = socket.create_server(("127.0.0.1", PORT))
open("/tmp/" + NAME, "w").write("here")
open("/dev/shm/" + NAME, "w").write("here")
libc = ctypes.CDLL(None, use_errno=True)
libc.shmget(KEY, 16, 0o1666)
ADD_KEY, KEYCTL, SEARCH, SESSION = *{"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()], 10, -3
libc.syscall(ADD_KEY, b"user", NAME.encode(), b"secret", 6, SESSION)
time.sleep(2)  # the other one is there by now

def one_way_bytes_per_s(*case):
    found = []
    def reached(what, action):
        try:
            action()
        except OSError:
            return
        found.append(what)
    def worked(result):
        if result == -1:
            raise OSError
    for name, port, key in (("ada", 5001, 71), ("bob", 5002, 72)):
        reached(name + " by socket", lambda: socket.socket(socket.AF_UNIX).connect(b"\\0" + name.encode()))
        reached(name + " by network", lambda: socket.create_connection(("127.0.0.1", port), 1))
        reached(name + " by file", lambda: os.stat("/tmp/" + name))
        reached(name + " by shared memory", lambda: os.stat("/dev/shm/" + name))
        reached(name + " by System V", lambda: worked(libc.shmget(key, 16, 0)))
        reached(name + " by keyring", lambda: worked(
            libc.syscall(KEYCTL, SEARCH, SESSION, b"user", name.encode(), 0)))
    commands = [open(f"/proc/{pid}/cmdline").read() for pid in os.listdir("/proc") if pid.isdigit()]
    spaces = {name: os.readlink("/proc/self/ns/" + name) for name in ("user", "pid", "mnt", "net", "ipc", "uts")}
    return [found, len([line for line in commands if "/python" in line]), spaces]
"""
KEYCTL = {"x86_64": 250, "aarch64": 219}
WAYS = ("socket", "network", "file", "shared memory", "System V", "keyring")


def test_two_at_once_neither_see_nor_signal_each_other(tmp_path):
    join_session_keyring = 1
    ctypes.CDLL(None).syscall(KEYCTL[platform.machine()], join_session_keyring, None)  # as a login has one
    ada = LOOK.replace("NAME", repr("ada")).replace("PORT", "5001").replace("shmget(KEY,", "shmget(71,")
    bob = LOOK.replace("NAME", repr("bob")).replace("PORT", "5002").replace("shmget(KEY,", "shmget(72,")
    results = graded(tmp_path / "see", {"ada": {ONE_WAY: ada}, "bob": {ONE_WAY: bob}})
    seen = {name: probed(results[name]) for name in ("ada", "bob")}
    for name, (found, n_pythons, _) in seen.items():
        assert found == [f"{name} by {way}" for way in WAYS]
        assert n_pythons == 2  # its kernel, and the driver
    for space, name in seen["ada"][2].items():
        assert name != seen["bob"][2][space] != os.readlink(f"/proc/self/ns/{space}") != name

    killer = "import os, signal, time\nfor _ in range(30):\n    os.kill(-1, signal.SIGKILL)\n    time.sleep(0.1)"
    slow = {ONE_WAY: "import time; time.sleep(2.5)\n" + RIGHT[ONE_WAY], RING: RIGHT[RING]}
    results = graded(tmp_path / "signal", {"killer": {ONE_WAY: killer, RING: RIGHT[RING]}, "victim": slow})
    assert results["victim"].points == 10
    assert results["killer"].points == 6


RIGHTS = """
import os, resource, sys
def one_way_bytes_per_s(*case):
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    kept = "Uid Gid Groups Umask Seccomp NoNewPrivs CapInh CapPrm CapEff CapBnd CapAmb SigIgn".split()
    files = ["/proc/self/fd/" + number for number in os.listdir("/proc/self/fd")]
    links = {os.readlink(file) for file in files if os.path.exists(file)}
    options = {line.split()[4]: line.split()[5].split(",") for line in open("/proc/self/mountinfo")}
    return {
        "status": {name: status[name].strip() for name in kept},
        "limits": [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if "RLIMIT_" in name],
        "environment": {name: value for name, value in os.environ.items() if name != "JPY_PARENT_PID"},
        "open files": sorted(link for link in links if link.startswith("/")),
        "writable": sorted(path for path, words in options.items() if "rw" in words and not path.startswith("/dev/")),
        "root": sorted(os.listdir("/")),
        "here": [os.getcwd(), sorted(os.listdir("/tmp")) == [], sys.path, sys.argv[0], __name__, sys.flags.isolated],
        "session": os.getsid(0) == os.getpid(),
        "namespaces": os.system("unshare --user true 2> /dev/null") == 0,
    }
"""


def test_a_warm_sandbox_is_the_same_as_a_cold_one(tmp_path):
    (tmp_path / "in").mkdir()
    submission = Submission("ada", write(tmp_path / "in" / "ada.ipynb", {ONE_WAY: RIGHTS}))
    cold = probed(grade(submission, settings(), threading.Event()))
    warm = probed(graded(tmp_path, {"ada": {ONE_WAY: RIGHTS}})["ada"])
    assert warm == cold
    rights = {name: value for name, value in cold["status"].items() if name.startswith("Cap")}
    assert set(rights.values()) == {"0" * 16} and cold["status"]["NoNewPrivs"] == "1"
    assert cold["namespaces"] is False


def test_a_warm_process_that_dies_costs_speed_alone(tmp_path):
    with Warm(QUICK) as warm:
        assert warm.works()
        warm._process.kill()
        warm._process.wait()
        write(tmp_path / "in" / "ada.ipynb", RIGHT)
        execute = functools.partial(run, warm=warm)
        assert grade(find(tmp_path / "in")[0], settings(), threading.Event(), execute).points == 10
    assert sandbox_processes() == []


def sandbox_processes():
    return [p.pid for p in psutil.Process().children(recursive=True) if p.name() == "bwrap"]


SNOOP = """
import os, pathlib, socket
def readable(path):
    path = pathlib.Path(path)
    try:
        return bool(os.listdir(path) if path.is_dir() else path.read_bytes())
    except OSError:
        return False
def writable(path):
    try:
        open(path + "/forged", "w").close()
        return True
    except OSError:
        return False
def connects(address):
    try:
        return bool(socket.create_connection(address, 1))
    except OSError:
        return False
def one_way_bytes_per_s(*case):
    return {
        "home": os.listdir(HOME) if os.path.isdir(HOME) else [],
        "read": [path for path in PATHS if readable(path)],
        "write": [path for path in ("/", "/usr", "/etc", "/dev", "/grader", PREFIX) if writable(path)],
        "net": [address for address in (("1.1.1.1", 53), ("127.0.0.1", 22), ("localhost", PORT)) if connects(address)],
        "env": [name for name in os.environ if "SECRET" in name],
        "uid": os.getuid(),
        "interfaces": [name for _, name in socket.if_nameindex()],
    }
"""


def test_nothing_of_the_instructor_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_SECRET", "7")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").write_text("{}")
    paths = ["/etc/shadow", "/etc/passwd", "/var", "/sys", "/mnt", "/proc/kcore", "/proc/1/root/etc/passwd"]
    paths += [tmp_path / "out", tmp_path / "in", Path.home() / ".bashrc", Path.home() / ".ssh"]
    paths += [ROOT / name for name in ("tests", "solutions", "labs", "src", "pyproject.toml", ".git")]
    with socket.create_server(("127.0.0.1", 0)) as server:
        names = {"PATHS": [str(path) for path in paths], "HOME": str(Path.home()), "PREFIX": sys.prefix}
        source = SNOOP
        for name, value in (names | {"PORT": server.getsockname()[1]}).items():
            source = source.replace(name, repr(value))
        result = graded(tmp_path, {"snoop": {ONE_WAY: source}})["snoop"]
    # Of home nothing is there but what leads to Python, if Python is there.
    prefixes = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix)]
    python = {prefix.relative_to(Path.home()).parts[0] for prefix in prefixes if prefix.is_relative_to(Path.home())}
    seen = probed(result)
    assert set(seen.pop("home")) <= python
    assert seen == {"read": [], "write": [], "net": [], "env": [], "uid": 65534, "interfaces": ["lo"]}


def test_an_answer_that_calls_the_package_gets_no_value(tmp_path):
    unnamed = "def ring_all_reduce_s(*case):\n    name = ''.join(map(chr, [97, 105, 105, 110, 102, 114, 97]))\n"
    unnamed += "    return __import__(name + '.collectives', fromlist=['x']).ring_all_reduce_s(*case)"
    direct = "from aiinfra.collectives import ring_all_reduce_s"
    path = "import sys\nsys.meta_path.pop(0)\nsys.modules.pop('aiinfra', 0)\nsys.path.remove('/grader/stub')\n"
    path += f"sys.path.append({str(ROOT / 'src')!r})\n"
    results = graded(tmp_path, {"unnamed": {RING: unnamed}, "direct": {RING: direct}, "path": {RING: path + unnamed}})
    assert [statuses(results[name])[1] for name in ("unnamed", "direct")] == [("package", 0.0)] * 2
    assert direct in results["direct"].tasks[1].says
    assert statuses(results["path"])[1] == ("error", 0.0)
    assert "No module named 'aiinfra" in results["path"].tasks[1].says


HOSTILE = {
    "memory": "block = b'x' * (10 << 30)",
    "memory of many": "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        block = b'x' * (1 << 28)\n"
    "        time.sleep(60)\ntime.sleep(60)",
    "hoard": "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 24))",
    "forks": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    "threads": "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(60,)).start()",
    "exit": "import os\nos._exit(0)",
    "system exit": "raise SystemExit",
    "segfault": "import ctypes\nctypes.string_at(0)",
    "recursion": "f = lambda: f()\nf()",
    "flood": "while True:\n    print('x' * 10_000)",
    "input": "input('grade? ')",
    "syntax": "def one_way_bytes_per_s(n) return n",
    "one display": "from IPython.display import display, HTML\ndisplay(HTML('<script>' + 'x' * (50 << 20)))",
    "stops the driver": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nimport time\ntime.sleep(60)",
}


def test_a_hostile_answer_costs_its_own_task_alone(tmp_path):
    limits = Limits(cell_s=3, cell_clock_s=12, memory_bytes=1 << 30)
    results = graded(tmp_path, {name: {ONE_WAY: source, RING: RIGHT[RING]} for name, source in HOSTILE.items()}, limits)
    got = {name: (result.status, result.points, result.tasks[0].status) for name, result in results.items()}
    assert got == {name: ("graded", 6.0, "error") for name in HOSTILE}
    says = {name: result.tasks[0].says for name, result in results.items()}
    assert "more than 1 GB of memory" in says["memory of many"]
    assert "MemoryError" in says["memory"]
    assert "SyntaxError" in says["syntax"]


DISK = """
def one_way_bytes_per_s(*case):
    written = {}
    for folder in ("/tmp", "/submission", "/dev/shm", "/", "/dev"):
        total = 0
        try:
            for number in range(100):
                with open(f"{folder}/fill-{number}", "wb", buffering=0) as file:
                    while total < 4 << 30:
                        total += file.write(b"0" * (1 << 20))
        except OSError as error:
            written[folder] = [total >> 20, error.strerror]
    return written
"""


def test_the_disk_can_not_be_filled(tmp_path):
    limits = Limits(file_bytes=32 << 20, disk_bytes=64 << 20)
    (tmp_path / "in").mkdir()
    result = grade(
        Submission("disk", write(tmp_path / "in/disk.ipynb", {ONE_WAY: DISK})), settings(limits), threading.Event()
    )
    written = probed(result)
    assert all(megabytes <= 64 for megabytes, _ in written.values())
    assert written["/"][0] == written["/dev"][0] == 0


def test_strange_submissions_each_give_a_row(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "in"
    write(folder / "zoë 李.ipynb", RIGHT)
    write(folder / "two" / "old.ipynb", {})
    write(folder / "two" / "new.ipynb", RIGHT)
    os.utime(folder / "two" / "old.ipynb", (1, 1))
    write(Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9 \x1b[2J.ipynb")), RIGHT)  # not UTF-8, and clears terminals
    (folder / "malformed.ipynb").write_text('{"cells": [')
    (folder / "old format.ipynb").write_text('{"nbformat": 3, "worksheets": []}')
    (folder / "link.ipynb").symlink_to(ROOT / "solutions" / "accelerators.ipynb")
    (folder / "empty").mkdir()
    notebook = json.loads(LAB.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["metadata"].get("task") != RING]
    (folder / "deleted.ipynb").write_text(json.dumps({**notebook, "cells": cells}))
    bare = copy.deepcopy(notebook)
    for cell in bare["cells"]:
        cell["source"] = RIGHT.get(cell["metadata"].get("task"), cell["source"])
        cell["metadata"] = {}
    (folder / "no metadata.ipynb").write_text(json.dumps(bare))
    monkeypatch.chdir(ROOT)
    out = tmp_path / "out"
    assert cli.main(["grade", str(folder), "--lab", "accelerators", "--out", str(out)]) == 0
    rows = {row["student"]: row for row in csv.DictReader((out / "gradebook.csv").open(encoding="utf-8"))}
    assert {student: (row["status"], row["points"]) for student, row in rows.items()} == {
        "zoë 李": ("graded", "10"),
        "two": ("graded", "10"),
        "caf\\udce9 \x1b[2J": ("graded", "10"),
        "malformed": ("not graded", "0"),
        "old format": ("not graded", "0"),
        "link": ("not graded", "0"),
        "empty": ("not graded", "0"),
        "deleted": ("graded", "0"),
        "no metadata": ("graded", "10"),
    }
    assert rows["two"]["remarks"] == "old.ipynb was not graded: new.ipynb is newer."
    assert rows["deleted"]["remarks"] == "one_way_bytes_per_s: not attempted; ring_all_reduce_s: missing"
    assert len(list((out / "feedback").iterdir())) == len(rows)
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err


def test_the_same_seed_gives_the_same_grades_and_each_student_other_inputs(tmp_path):
    nearly = {RING: "def ring_all_reduce_s(m, n, b, a):\n    return 2 * (n - 1) * (a + m / n / b) if n > 30 else 1.0"}
    first, second = (graded(tmp_path, {"ada": nearly, "bob": nearly}) for _ in range(2))
    assert [first[name].tasks for name in ("ada", "bob")] == [second[name].tasks for name in ("ada", "bob")]
    assert first["ada"].tasks[1].cases != first["bob"].tasks[1].cases


def command(tmp_path, *arguments):
    line = [sys.executable, "-m", "aiinfra.cli", "grade", str(tmp_path / "in"), "--lab", "accelerators"]
    line += ["--out", str(tmp_path / "out"), *arguments]
    return subprocess.Popen(
        line,
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests that run in the background ignore it
    )


def test_killed_at_random_moments_and_resumed_it_gives_the_same(tmp_path):
    for number, answers in enumerate(
        [RIGHT, DIFFERENTLY_RIGHT, {}, MISCONCEIVED, RIGHT | {ONE_WAY: "import os\nos._exit(0)"}] * 2
    ):
        write(tmp_path / "in" / f"student {number}.ipynb", answers)
    arguments = ["--seed", "7", "--jobs", "2"]
    process = command(tmp_path, "--out", str(tmp_path / "whole"), *arguments)
    _, says = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, says
    moments = [random.uniform(0.5, 6.0) for _ in range(4)]
    for seconds in moments:
        process = command(tmp_path, "--resume", *arguments)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=seconds)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    process = command(tmp_path, "--resume", *arguments)
    _, says = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, says
    for name in ("gradebook.csv",):
        assert (tmp_path / "out" / name).read_text() == (tmp_path / "whole" / name).read_text(), moments


@pytest.mark.parametrize("how, status", [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_an_interrupted_run_leaves_a_whole_gradebook_and_no_process(tmp_path, how, status):
    write(tmp_path / "in" / "a.ipynb", RIGHT)
    sleeper = f"import subprocess\nsubprocess.run(['sleep', '{MARKER}'])"
    for student in "bcd":
        write(tmp_path / "in" / f"{student}.ipynb", {ONE_WAY: sleeper})
    process = command(tmp_path, "--jobs", "2")
    assert "a " in process.stderr.readline()
    deadline = time.monotonic() + PATIENCE_S
    while not sleeping() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(how)
    _, says = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == status, says
    rows = list(csv.DictReader((tmp_path / "out" / "gradebook.csv").open(encoding="utf-8")))
    assert [(row["student"], row["points"]) for row in rows] == [("a", "10")]
    json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    gone(sleeping)


def test_without_a_sandbox_only_when_told_and_the_results_say_so(tmp_path):
    write(tmp_path / "in" / "ada.ipynb", RIGHT | {ONE_WAY: NEVER_ENDING[ONE_WAY]})
    result = grade(find(tmp_path / "in")[0], settings(isolated=False), threading.Event())
    assert statuses(result) == [("error", 0.0), ("right", 6.0)]
    assert result.notes == ("Graded without a sandbox.",)
