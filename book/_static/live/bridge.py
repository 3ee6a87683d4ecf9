"""Runs in Pyodide: just enough of IPython for ipywidgets, and a comm that talks to the page.

ipywidgets asks IPython for four names and the `comm` package for a way to send messages. Given both, it runs
unchanged without a kernel.
"""

import ast
import json
import sys
import types

import comm
from comm.base_comm import BaseComm, CommManager
from live_page import post


class _Shell:
    """What ipywidgets and comm call on IPython's shell. It keeps the exception that a callback raised."""

    kernel = None
    problem = None
    events = types.SimpleNamespace(trigger=lambda _name: None)

    def showtraceback(self, *_arguments, **_keywords):
        _Shell.problem = sys.exception()

    @classmethod
    def initialized(cls):
        return False


class _PageComm(BaseComm):
    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
        state = json.dumps((data or {}).get("state", {}))
        if msg_type == "comm_open":
            post("opened", {"number": _running, "comm": self.comm_id, "state": state})
        elif data and data.get("method") == "update":
            post("state", {"comm": self.comm_id, "state": state})


def _stand_in():
    shell = _Shell()
    names = {
        "IPython": {"get_ipython": lambda: shell, "version_info": (9, 0, 0)},
        "IPython.display": {"display": _display, "clear_output": lambda wait=False: None},
        "IPython.core": {},
        "IPython.core.interactiveshell": {"InteractiveShell": _Shell},
    }
    for name, attributes in names.items():
        module = types.ModuleType(name)
        module.__path__ = []
        vars(module).update(attributes)
        sys.modules[name] = module
    manager = CommManager()
    comm.create_comm = _PageComm
    comm.get_comm_manager = lambda: manager
    return manager


_running, _shown = 0, []


def _display(*widgets, **_keywords):
    _shown.extend(widgets)


def run(number, source):
    """Runs a cell in a namespace of its own and tells the page which widget it shows."""
    global _running
    _running = number
    _shown.clear()
    try:
        tree = ast.parse(source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        namespace = {"__name__": "__main__"}
        exec(compile(tree, "<figure>", "exec"), namespace)
        if last is not None:
            _display(eval(compile(ast.Expression(last.value), "<figure>", "eval"), namespace))
        root = next(shown.model_id for shown in _shown if hasattr(shown, "model_id"))
    except Exception as problem:
        post("ran", {"number": number, "error": f"{type(problem).__name__}: {problem}"})
    else:
        post("ran", {"number": number, "root": root})


def change(comm_id, message):
    """Hands a message of the page to its widget, and tells the page when all that follows from it has been sent."""
    _Shell.problem = None
    widget = _manager.get_comm(comm_id)
    widget.handle_msg({"metadata": {}, "content": {"comm_id": comm_id, "data": json.loads(message)}, "buffers": []})
    post("changed", {"comm": comm_id, "error": str(_Shell.problem) if _Shell.problem else None})


_manager = _stand_in()

import ipywidgets  # noqa: E402, F401  (now, while the page shows that Python is starting)
