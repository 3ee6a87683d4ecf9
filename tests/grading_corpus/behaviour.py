"""Answers that misbehave, and odd ones that are right. MARKER stands for seconds that only these tests sleep."""

from tests.grading_corpus.entry import LAB, RIGHT, RIGHT_SECOND, ROOT, answers, harmless

NOT_DEFINED = "The cell stopped before it defined"
DENIED = "    except OSError:\n        pass\n    else:\n        raise AssertionError('it worked')\n"


def tries(action, setup=""):
    """An answer that is right where `action`, one or more lines, ends in an OSError."""
    lines = "".join(f"        {line}\n" for line in action.splitlines())
    return (
        f"{setup}\ndef one_way_bytes_per_s(n_links, gb):\n    try:\n{lines}{DENIED}    return n_links * gb / 2 * 1e9\n"
    )


def returns(expression, setup=""):
    return (
        f"{setup}\ndef one_way_bytes_per_s(n_links, gb):\n    right = n_links * gb / 2 * 1e9\n    return {expression}\n"
    )


TIME = [
    answers("endless loop", "while True:\n    pass", says="did not end within 3 seconds of computing"),
    answers("endless function", returns("[None for _ in iter(int, 1)]"), says="did not end within 3 seconds"),
    answers("endless in C", "import itertools\nsum(itertools.repeat(1))", says="did not end within 3 seconds"),
    answers("endless pattern", "import re\nre.match('(a+)+$', 'a' * 60 + 'b')", says="did not end within"),
    answers(
        "deaf to interrupts",
        "import time\nwhile True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass",
        says="did not end within",
    ),
    answers("sleeps for a day", "import time\ntime.sleep(86_400)", says="did not end within"),
    answers(
        "deadlock",
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        says="did not end within",
    ),
]

MEMORY = [
    answers("one block", "block = b'x' * (10 << 30)", says="MemoryError"),
    answers("hoard", "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 24))", says="MemoryError"),
    answers(
        "memory of many processes",
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        block = b'x' * (1 << 28)\n"
        "        time.sleep(86_400)\ntime.sleep(86_400)",
        says="memory",
    ),
    answers(
        "shared memory",
        "with open('/dev/shm/fill', 'wb') as a, open('/dev/shm/more', 'wb') as b:\n    while True:\n"
        "        a.write(bytes(1 << 19))\n        b.write(bytes(1 << 20))",
        says="OSError",
    ),
]

PROCESSES = [
    answers(
        "fork bomb",
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
        says="Stopped",
    ),
    answers(
        "threads without end",
        "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(86_400,)).start()",
        says="can't start new thread",
    ),
    harmless(
        "daemon thread",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(86_400,), daemon=True).start()\n" + RIGHT,
    ),
    harmless(
        "thread that is not a daemon",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(86_400,)).start()\n" + RIGHT,
    ),
    harmless(
        "thread that computes for ever",
        "import threading\ndef spin():\n    while True:\n        pass\n"
        "threading.Thread(target=spin, daemon=True).start()\n" + RIGHT,
    ),
    harmless(
        "daemon that outlives",
        "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.execvp('sleep', ['sleep', 'MARKER'])\n    os._exit(0)\n" + RIGHT,
    ),
    harmless(
        "shell that outlives and writes a gradebook",
        "import subprocess\nsubprocess.Popen(['setsid', 'nohup', 'sh', '-c', "
        "'while sleep MARKER; do echo mallory,10,10 > gradebook.csv; done'])\n" + RIGHT,
    ),
    harmless(
        "child that holds the output open",
        "import subprocess\nsubprocess.Popen(['sleep', 'MARKER'], close_fds=False)\n" + RIGHT,
    ),
    harmless("slow goodbye", "import atexit, time\natexit.register(time.sleep, 86_400)\n" + RIGHT),
]

DISK = [
    answers(
        "fills the disk",
        "for number in range(10_000):\n    with open(f'/tmp/{number}', 'wb') as file:\n"
        "        file.write(bytes(1 << 24))",
        says="No space left",
    ),
    answers(
        "one huge file",
        "with open('huge', 'wb') as file:\n    for _ in range(1 << 12):\n        file.write(bytes(1 << 20))",
        says="OSError",
    ),
    harmless("many files", "for number in range(2_000):\n    open(f'/tmp/{number}', 'w').close()\n" + RIGHT),
    harmless("writes into the system", tries("open('/usr/forged', 'w')")),
    harmless("writes beside the grader", tries("open('/grader/forged', 'w')")),
]

OUTPUT = [
    answers("endless printing", "while True:\n    print('x' * 10_000)"),
    harmless("ten megabytes of printing", "for _ in range(1_000):\n    print('x' * 10_000)\n" + RIGHT),
    harmless("errors without end", "import sys\nsys.stderr.write('x' * 5_000_000)\n" + RIGHT),
    harmless(
        "script in an output",
        "from IPython.display import HTML, display\n"
        "display(HTML('<script>alert(1)</script><img src=x onerror=alert(1)>'))\n" + RIGHT,
    ),
    harmless("script in what is printed", "print('</pre><script>alert(1)</script>')\n" + RIGHT),
    harmless("script in a comment", "# </pre><script>alert(1)</script>\n" + RIGHT),
    answers("script in an error", "raise ValueError('</pre><script>alert(1)</script>')", says="ValueError"),
    harmless("half a surrogate printed", "try:\n    print('\\ud800')\nexcept UnicodeError:\n    pass\n" + RIGHT),
    answers("half a surrogate as answer", returns("'\\ud800'"), "wrong", says="expected a number"),
    harmless("escapes for the terminal", "print('\\x1b[2J\\x1b]0;title\\x07\\x9b31m')\n" + RIGHT),
    harmless(
        "a widget on the page",
        "import ipywidgets\nfrom IPython.display import display\ndisplay(ipywidgets.IntSlider())\n" + RIGHT,
    ),
    harmless("a plot", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n" + RIGHT),
]

EXITS = [
    answers("raises SystemExit", "raise SystemExit", says=NOT_DEFINED),
    answers("sys.exit in the function", returns("__import__('sys').exit(0)"), says="SystemExit"),
    answers("os._exit", "import os\nos._exit(0)", says="ended the process"),
    answers("os._exit in the function", returns("__import__('os')._exit(0)"), says="ended the process"),
    answers("abort", "import os\nos.abort()", says="ended the process"),
    answers("segmentation fault", "import ctypes\nctypes.string_at(0)", says="ended the process"),
    answers(
        "KeyboardInterrupt in the function",
        "def one_way_bytes_per_s(*case):\n    raise KeyboardInterrupt",
        says="could not be read",
    ),
    answers(
        "recursion", "def one_way_bytes_per_s(*case):\n    return one_way_bytes_per_s(*case)", says="RecursionError"
    ),
    answers(
        "recursion without a limit",
        "import sys\nsys.setrecursionlimit(1 << 30)\nf = lambda: [*map(lambda _: f(), [1])]\nf()",
        says="",
    ),
    answers("replaces its process", "import os\nos.execvp('true', ['true'])", says="ended the process"),
]

SIGNALS = [
    answers("kills itself", "import os\nos.kill(os.getpid(), 9)", says="ended the process"),
    answers("stops itself", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", says="did not end within"),
    answers(
        "kills its parent", "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(86_400)", says="ended the process"
    ),
    answers(
        "stops its parent",
        "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(86_400)",
        says="did not end within",
    ),
    answers("kills everybody", "import os, time\nos.kill(-1, 9)\ntime.sleep(86_400)", says="ended the process"),
    harmless(
        "signals the first process", "import os, signal\nfor number in (1, 2, 15):\n    os.kill(1, number)\n" + RIGHT
    ),
    harmless("ignores signals", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + RIGHT),
]

PATCHES = [
    answers(
        "patches the check",
        "import aiinfra.checks\naiinfra.checks.judge = lambda *a: 'right'\n" + returns("1.0"),
        "package",
        says="leans on the course's package",
    ),
    answers(
        "patches papermill",
        "import papermill.execute, nbclient.client\npapermill.execute.execute_notebook = None\n"
        "nbclient.client.NotebookClient.execute = None\n" + returns("1.0"),
        "wrong",
        says="too small",
    ),
    answers("patches json", "import json\njson.dumps = lambda *a, **k: '{\"right\": true}'\n" + RIGHT, says=""),
    answers(
        "patches isinstance",
        "import builtins\nbuiltins.isinstance = lambda *a: True\n" + returns("object()"),
        says="",
    ),
    answers(
        "patches repr",
        returns("type('F', (float,), {'__repr__': lambda s: '1e9', '__eq__': lambda *a: True})(1.0)"),
        "wrong",
        says="too small",
    ),
    answers(
        "says everything twice",
        "shown = type(get_ipython().display_pub)\npublish = shown.publish\n"
        "shown.publish = lambda self, data, *a, **k: [publish(self, data) for _ in 'ab']\n" + RIGHT,
        says="2 reports where one was expected",
    ),
    answers(
        "forges an outcome without the number",
        "import json\nfrom IPython.display import display\n"
        "said = json.dumps({'nonce': 'n', 'outcomes': [{'value': 1.0}] * 6})\n"
        "display({'application/x-aiinfra-outcomes': said}, raw=True)\n" + returns("1.0"),
        "wrong",
        says="too small",
    ),
    answers(
        "forges an outcome with the number",
        "import json, os, sys, time\nfrom IPython.display import display\ndef one_way_bytes_per_s(*case):\n"
        "    frame = sys._getframe()\n"
        "    while 'nonce' not in frame.f_locals:\n        frame = frame.f_back\n"
        "    said = {'nonce': frame.f_locals['nonce'], 'outcomes': [{'value': 1.0}] * 6}\n"
        "    display({'application/x-aiinfra-outcomes': json.dumps(said)}, raw=True)\n    return 1.0\n",
        says="7 reports where one was expected",
    ),
    harmless(
        "writes into the grader's channel",
        tries(
            """
import os
for name in os.listdir(f'/proc/{os.getppid()}/fd'):
    open(f'/proc/{os.getppid()}/fd/{name}', 'w').write('{"done": 1}')
""".strip()
        ),
    ),
    harmless("reads the grader's memory", tries("import os\nopen(f'/proc/{os.getppid()}/mem', 'rb')")),
    harmless("reads the grader's order", tries("import os\nopen(f'/proc/{os.getppid()}/fd/0', 'rb')")),
]

REFERENCE = [
    answers(
        "calls the reference",
        "from aiinfra.checks import tasks\n"
        "one_way_bytes_per_s = tasks('accelerators')['one_way_bytes_per_s'].reference",
        "package",
        says="earns nothing",
    ),
    answers(
        "calls the reference under a name made of letters",
        "def one_way_bytes_per_s(*case):\n    name = ''.join(map(chr, [97, 105, 105, 110, 102, 114, 97]))\n"
        "    tasks = __import__(name + '.checks', fromlist=['x']).tasks('accelerators')\n"
        "    return tasks['one_way_bytes_per_s'].reference(*case)",
        "package",
        says="seen when it was called",
    ),
    answers(
        "looks for the package on the disk",
        f"import sys\nsys.meta_path.pop(0)\nsys.path[:0] = [{str(ROOT / 'src')!r}]\n"
        "sys.modules.pop('ai' 'infra', None)\n"
        "name = 'ai' + 'infra' + '.checks.accelerators'\n"
        "one_way_bytes_per_s = __import__(name, fromlist=['x']).LINK.reference",
        says="",
    ),
    harmless("reads the solution", tries(f"open({str(ROOT / 'solutions' / 'accelerators.ipynb')!r})")),
    harmless("reads the lab", tries(f"open({str(LAB)!r})")),
    harmless("reads the work of others", tries("import os\nos.listdir('FOLDER')")),
    harmless("reads the results", tries("open('FOLDER/results.json')")),
    harmless("reads passwords", tries("open('/etc/passwd')")),
    harmless("makes a namespace", tries("import os\nif os.system('unshare --user true') != 0:\n    raise OSError")),
    harmless("reads keys of the user", tries("open('/root/.ssh/id_rsa')")),
]

NETWORK = [
    harmless("calls home", tries("import socket\nsocket.create_connection(('1.1.1.1', 53), 5)")),
    harmless("asks for an address", tries("import socket\nsocket.getaddrinfo('example.org', 80)")),
    harmless("calls the machine", tries("import socket\nsocket.create_connection(('127.0.0.1', PORT), 5)")),
    harmless("sends a packet", tries("import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW)")),
]

SYNTAX = [
    answers("syntax error", "def one_way_bytes_per_s(n_links, gb) return 1", says="SyntaxError"),
    answers("wrong indentation", "def one_way_bytes_per_s(n_links, gb):\nreturn 1", says="IndentationError"),
    answers("null bytes", "def one_way_bytes_per_s(n_links, gb):\n    return '\0'", says=""),
    answers("only prose", "I would divide by two, because", says=NOT_DEFINED),
    answers("R", "one_way_bytes_per_s <- function(n, gb) n * gb / 2 * 1e9", says=""),
    harmless("names in other scripts", "ñ·ΔΦ_链路 = 2\n" + RIGHT.replace("/ 2", "/ ñ·ΔΦ_链路")),
    harmless("magics", "%matplotlib inline\n%load_ext autoreload\n" + RIGHT),
    harmless("a cell magic", "%%time\n" + RIGHT),
    answers("a cell for the shell", "%%bash\n# one_way_bytes_per_s\necho hello", says="missing"),
    harmless("shell escapes", "!echo hello; ls / > /dev/null\nfiles = !ls\n" + RIGHT),
    answers("removes everything", "!rm -rf --no-preserve-root / 2> /dev/null\nraise SystemExit", says=NOT_DEFINED),
    harmless("an async cell", "import asyncio\nawait asyncio.sleep(0.01)\n" + RIGHT),
    harmless("a task that never ends", "import asyncio\ntask = asyncio.ensure_future(asyncio.sleep(86_400))\n" + RIGHT),
    answers("an async function", "async " + RIGHT, says="coroutine"),
    answers("input", "input('grade? ')", says="StdinNotImplementedError"),
    answers("input in the function", returns("float(input())"), says="StdinNotImplementedError"),
    answers("a debugger", "breakpoint()\n1 / 0", says=NOT_DEFINED),
]

VALUES = [
    answers("nothing", returns("None"), "not attempted", says="returns nothing"),
    answers("NaN", returns("float('nan')"), "wrong", says="expected a finite number"),
    answers("infinity", returns("float('inf')"), "wrong", says="expected a finite number"),
    answers("a huge integer", returns("10**400"), says="too large"),
    answers("a huge integer in a list", returns("[10**5000]"), says=""),
    answers("a complex number", returns("complex(right)"), says="complex"),
    answers("a text", returns("str(right)"), "wrong", says="expected a number"),
    answers("a list", returns("[right]"), "wrong", says="expected a number"),
    answers("a Fraction", returns("fractions.Fraction(right)", "import fractions"), says="Fraction"),
    answers("a generator", returns("(right for _ in [1])"), says="generator"),
    answers("a widget", returns("ipywidgets.FloatText(right)", "import ipywidgets"), says="FloatText"),
    answers(
        "deep lists",
        returns("functools.reduce(lambda x, _: [x], range(100), right)", "import functools"),
        says="nested too deeply",
    ),
    answers("a list in itself", returns("(lambda x: x.append(x) or x)([])"), says="RecursionError"),
    answers("a value without end", returns("type('A', (), {'tolist': lambda self: self})()"), says="RecursionError"),
    answers("ten million items", returns("[0] * 10_000_000"), says="at most"),
    answers("a long text", returns("'x' * 10_000_000"), says="too long"),
    answers("wrong by a constant", returns("right * 1000"), "wrong", says="1000 times"),
    answers(
        "right half of the time",
        "right = iter([True] * 3)\ndef one_way_bytes_per_s(n_links, gb):\n"
        "    return n_links * gb * (5e8 if next(right, False) else 5)",
        "wrong",
        2.0,
        says="too small",
    ),
    answers(
        "an array of text",
        RIGHT,
        "right",
        4.0,
        second="import numpy as np\n"
        + RIGHT_SECOND
        + "listed = rank_offers\ndef rank_offers(offers):\n    return np.array(listed(offers))\n",
    ),
]

GOOD = [
    answers("good", RIGHT, "right", 4.0, "Every task is right"),
    answers("good in another way", "one_way_bytes_per_s = lambda n, gb: sum([gb * 5e8] * n)", "right", 4.0),
    answers("empty", "", "missing", 0.0, second="", second_is=("missing", 0.0), says="There is nothing to grade yet"),
    answers("misconceived", RIGHT.replace(" / 2", ""), "wrong", 0.0, "adds the two directions"),
]

ENTRIES = TIME + MEMORY + PROCESSES + DISK + OUTPUT + EXITS + SIGNALS + PATCHES + REFERENCE + NETWORK + SYNTAX + VALUES
