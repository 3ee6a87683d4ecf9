"""Runs one assembled notebook with papermill, inside the sandbox, and says what happens.

A script, run by itself: it takes its order as JSON on standard input and answers with one line of JSON for each event
on what was its standard output. A cell's end is told as soon as it is known, so that a notebook which is killed still
says which cell it was in. Only what the learner's process reported is told; nothing is judged here.
"""

import contextlib
import json
import os
import queue
import re
import sys
import time
import types

OUTCOMES = "application/x-aiinfra-outcomes"
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def limit(limits):
    """Put limits on this process and, by inheritance, on every process that the notebook starts."""
    if limits["own_namespace"]:
        own_keyring()
    try:
        import resource
    except ImportError:  # Windows, where only --no-sandbox gets here
        return
    wanted = {
        "RLIMIT_AS": limits["memory_bytes"],
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": limits["notebook_s"],
        "RLIMIT_FSIZE": limits["file_bytes"],
        "RLIMIT_NOFILE": limits["n_files"],
        "RLIMIT_NPROC": limits["n_threads"] if limits["own_namespace"] else None,
    }
    for name, value in wanted.items():
        if value is not None and hasattr(resource, name):
            hard = resource.getrlimit(getattr(resource, name))[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            with contextlib.suppress(OSError, ValueError):  # macOS has no limit on the address space
                resource.setrlimit(getattr(resource, name), (value, value))


def own_keyring():
    """Leave the keyring of the session: it may hold the grader's keys, and other notebooks have it too."""
    import ctypes

    KEYCTL_JOIN_SESSION_KEYRING = 1
    number = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
    if number:
        ctypes.CDLL(None).syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None)


def private_channel():
    """A function that tells events; standard input, output and error lead nowhere from now on.

    The notebook's kernel inherits the three. Where the system allows it, this process also becomes closed to others of
    the same user, so that a learner's process can neither read the order nor write to the channel.
    """
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    if sys.platform == "linux":
        import ctypes

        PR_SET_DUMPABLE = 4
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)

    def tell(**event):
        channel.write(json.dumps(event) + "\n")
        channel.flush()

    return tell


def text_of(outputs, n_chars):
    """What a cell showed as plain text: what it printed and its error, never HTML."""
    parts = []
    for output in outputs:
        if output["output_type"] == "stream":
            parts.append(str(output.get("text", "")))
        elif output["output_type"] == "error":
            parts.append("\n".join(str(line) for line in output.get("traceback", [])) + "\n")
        else:
            parts.append(str(output.get("data", {}).get("text/plain", "")) + "\n")
    text = _ANSI.sub("", "".join(parts))
    return text if len(text) <= n_chars else text[:n_chars] + "\n[cut off]"


def leave(tell, end):
    """Tell the end and end, at once: taking an interpreter apart takes longer than all the learner's cells."""
    tell(end=end)
    os._exit(0)


def imports():
    """Import what `run` needs, and make what the first notebook would make."""
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # jsonschema would compile a grammar with it, for 1 s
    import ipykernel.kernelspec  # noqa: F401
    import jupyter_client.provisioning.local_provisioner
    import nbformat
    import papermill.clientwrap
    import papermill.engines  # noqa: F401

    nbformat.v4.new_code_cell("")  # compiles nbformat's schema
    jupyter_client.provisioning.KernelProvisionerFactory.instance()


def manager_class():
    """jupyter_client's manager of a kernel, with a client that waits for no more than it must.

    Its own client takes the kernel for ready after a fifth of a second of silence.
    """
    from jupyter_client import AsyncKernelClient, AsyncKernelManager
    from traitlets import Type

    class Client(AsyncKernelClient):
        async def wait_for_ready(self, timeout=None):
            deadline = time.monotonic() + timeout
            while not await self._answers():
                if not await self.is_alive():
                    raise RuntimeError("the kernel died at its start")
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the kernel did not start within {timeout} seconds")

        async def _answers(self):
            """Whether the kernel is heard on both channels; on the second, what came before it was open is lost."""
            self.kernel_info()
            try:
                await self.get_shell_msg(timeout=1)
                await self.get_iopub_msg(timeout=0.2)
            except queue.Empty:
                return False
            return True

    class Manager(AsyncKernelManager):
        client_factory = Type(Client)

    return Manager


def run(order, tell, launcher=None):
    """Execute the cells of `order` one after the other; an error ends its cell, not the notebook.

    launcher : type   of jupyter_client's provisioners, to launch the kernel by; default its own
    """
    imports()
    import nbformat
    import papermill
    from jupyter_client.provisioning import KernelProvisionerFactory
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.clientwrap import PapermillNotebookClient
    from papermill.engines import Engine, papermill_engines

    limits = order["limits"]

    class Client(PapermillNotebookClient):
        """papermill's own client, which forgets what a cell shows beyond a limit."""

        shown = 0

        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] not in ("status", "error"):
                self.shown += len(str(msg["content"]))
                if self.shown > limits["output_chars"]:
                    return None
            return super().process_message(msg, cell, cell_index)

    class GradingEngine(Engine):
        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name, **kwargs):
            def begin(cell, cell_index):
                client.shown = 0
                tell(begin=cell_index)

            def done(cell, cell_index, execute_reply):
                content = execute_reply["content"]
                error = f"{content.get('ename')}: {content.get('evalue')}"[:300] if "ename" in content else None
                reports = [output["data"][OUTCOMES] for output in cell.outputs if OUTCOMES in output.get("data", {})]
                text = text_of(cell.outputs, limits["shown_chars"])
                tell(done=cell_index, error=error, text=text, reports=reports)
                cell.outputs = []  # told; what it held is not needed any more
                if cell_index == len(order["cells"]) - 1 and limits["own_namespace"]:
                    leave(tell, "complete")  # the kernel goes with the sandbox, without goodbyes that take time

            client = Client(
                nb_man,
                kernel_name=kernel_name,
                timeout=limits["cell_clock_s"],
                iopub_timeout=limits["cell_clock_s"],
                startup_timeout=limits["notebook_clock_s"],
                allow_errors=True,
                record_timing=False,
                store_widget_state=False,
                shutdown_kernel="immediate",
                kernel_manager_class=manager_class(),
                on_cell_execute=begin,
                on_cell_executed=done,
            )
            return client.execute()

    if launcher:
        factory = KernelProvisionerFactory.instance()
        factory.provisioners["warm"] = types.SimpleNamespace(load=lambda: launcher)  # type: ignore[assignment]
        factory.default_provisioner_name = "warm"
    papermill_engines.register("grading", GradingEngine)
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in order["cells"]],
        metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}},
    )
    try:
        papermill.execute_notebook(notebook, None, engine_name="grading", progress_bar=False)
    except CellTimeoutError:
        leave(tell, "cell clock")
    except DeadKernelError:
        leave(tell, "died")
    except papermill.PapermillExecutionError:
        pass  # papermill's way to say that some cell had an error; each was told when it ended
    except Exception as error:
        leave(tell, f"trouble: {type(error).__name__}: {error}"[:300])
    leave(tell, "complete")


def main(launcher=None):
    """Take the order from standard input and run it."""
    order = json.load(sys.stdin)
    limit(order["limits"])
    run(order, private_channel(), launcher)


if __name__ == "__main__":
    main()
