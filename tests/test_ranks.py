"""Real ranks on this machine: what comes back, what is counted, and that nothing is left behind whatever happens."""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import uuid

import cloudpickle
import nbclient
import nbformat
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiinfra.collectives import ring_all_reduce_sent_bytes
from aiinfra.measure import supervisor
from aiinfra.measure.ranks import RankError, Traffic, run_ranks

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks cannot import this file

MARK = f"aiinfra-test-{uuid.uuid4()}"  # in the environment of every process that these tests start


def marked(mark=MARK):
    """The living processes that carry `mark` in their environment, without this one."""
    found = []
    for process in psutil.process_iter():
        try:
            alive = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
            if alive and process.environ().get("MARK") == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def gone(mark=MARK, limit_s=20):
    """Whether all processes with `mark` have left, given time to do so."""
    deadline = time.monotonic() + limit_s
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    return marked(mark) == []


def only_the_supervisor():
    left = [process.pid for process in marked() if "resource_tracker" not in " ".join(process.cmdline())]
    return left in ([], [supervisor._running and supervisor._running.process.pid])


@pytest.fixture(scope="module", autouse=True)
def one_supervisor(tmp_path_factory):
    """A supervisor and a temporary folder of this module's own; both must be clean at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARK", MARK)
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("ranks")))
        patch.setattr(supervisor, "_running", None)
        yield
        if supervisor._running:
            supervisor._running.stop()
        assert gone()
        assert os.listdir(tempfile.tempdir) == []


@pytest.fixture(autouse=True)
def nothing_left():
    """After each test only the supervisor is there (and the tracker that Python starts for spawn), and no file."""
    yield
    assert only_the_supervisor()
    assert os.listdir(tempfile.tempdir) == []


# ---- what comes back


def test_values_come_back_by_rank():
    def fn(a, b):
        import torch
        import torch.distributed as dist

        total = torch.tensor([float(dist.get_rank() + a)])
        dist.all_reduce(total)
        names = [os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")]
        return {"rank": dist.get_rank(), "sum": total, "b": b, "names": names, "threads": torch.get_num_threads()}

    results = run_ranks(fn, 3, 10, b="x", timeout_s=30)
    assert [value.pop("sum").tolist() for value in results.values] == [[33.0]] * 3
    assert results.values == [
        {"rank": rank, "b": "x", "names": [str(rank), str(rank), "3"], "threads": 1} for rank in range(3)
    ]
    assert all(wall_s > 0 for wall_s in results.wall_s)


def test_output_comes_back_and_is_shown_only_on_request(capfd):
    def fn():
        import torch.distributed as dist

        print("from python", dist.get_rank())
        os.system("echo from a child")
        print("without a newline", end="")

    results = run_ranks(fn, 2)
    assert capfd.readouterr() == ("", "")
    assert results.output == [f"from python {rank}\nfrom a child\nwithout a newline" for rank in range(2)]
    results.show_output()
    assert capfd.readouterr().out.splitlines()[3:] == [
        "[rank 1] from python 1",
        "[rank 1] from a child",
        "[rank 1] without a newline",
    ]


def test_repr_says_what_happened():
    def fn():
        import torch
        import torch.distributed as dist

        dist.all_reduce(torch.ones(1_000_000))
        if dist.get_rank() == 0:
            dist.send(torch.ones(250), 1)
        else:
            dist.recv(torch.ones(250), 0)
        return torch.eye(2)

    lines = repr(run_ranks(fn, 2)).splitlines()
    assert lines[0].startswith("2 ranks, ")
    assert lines[1:] == [
        "  rank 0 returned tensor([[1., 0.], [0., 1.]])",
        "  rank 1 returned tensor([[1., 0.], [0., 1.]])",
        "  all_reduce: calls 1, payload 4.00 MB",
        "  send: calls 0 to 1, payload 0 B to 1.00 kB",
        "  recv: calls 0 to 1, payload 0 B to 1.00 kB",
    ]


def test_the_environment_and_the_folder_of_each_call_reach_the_ranks(monkeypatch, tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        monkeypatch.setenv("COLOUR", name)
        values = run_ranks(lambda: (os.environ["COLOUR"], os.getcwd()), 2).values
        assert values == [(name, str(tmp_path / name))] * 2


def test_ranks_draw_different_numpy_numbers():
    def fn():
        import numpy

        return numpy.random.random()

    assert len(set(run_ranks(fn, 3).values)) == 3


def test_the_parent_may_have_torch_at_work_and_call_from_several_threads():
    import torch

    torch.ones(500, 500) @ torch.ones(500, 500)
    values = {}

    def call(k):
        values[k] = run_ranks(lambda: k, 2).values

    threads = [threading.Thread(target=call, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == {k: [k, k] for k in range(3)}


def test_a_rank_may_have_children_of_its_own():
    def fn():
        import torch
        from torch.utils.data import DataLoader

        loader = DataLoader(torch.arange(8.0), batch_size=4, num_workers=1)
        return sum(batch.sum().item() for batch in loader)

    assert run_ranks(fn, 2).values == [28.0, 28.0]


def test_spawn_does_the_same_where_there_is_no_fork(monkeypatch):
    monkeypatch.setattr(supervisor, "START_METHOD", "spawn")

    def fn():
        import torch
        import torch.distributed as dist

        print("here")
        dist.all_reduce(torch.ones(10))
        return dist.get_rank()

    results = run_ranks(fn, 2)
    assert (results.values, results.output) == ([0, 1], ["here\n"] * 2)
    assert results.payload_bytes("all_reduce") == [40, 40]


# ---- bytes


def ring_all_reduce(x):
    """A ring all-reduce written by hand: reduce-scatter, then all-gather, one chunk to the right neighbour a step."""
    import torch
    import torch.distributed as dist

    n, rank = dist.get_world_size(), dist.get_rank()
    chunks = list(x.chunk(n))
    received = torch.empty_like(chunks[0])
    for step in range(2 * (n - 1)):
        gathering = step >= n - 1
        outgoing = dist.isend(chunks[(rank - step + gathering * (n - 1) + gathering) % n], (rank + 1) % n)
        dist.recv(received, (rank - 1) % n)
        outgoing.wait()
        k = (rank - step - 1 + gathering * (n - 1) + gathering) % n
        chunks[k].copy_(received if gathering else chunks[k] + received)
    return x


@pytest.mark.parametrize("n_ranks", [2, 3, 4])
def test_a_ring_written_by_hand_sends_what_the_formula_says(n_ranks):
    def fn(n_elements):
        import torch
        import torch.distributed as dist

        return ring_all_reduce(torch.arange(n_elements, dtype=torch.float32) * (dist.get_rank() + 1)).tolist()

    results = run_ranks(fn, n_ranks, 1200)
    factor = n_ranks * (n_ranks + 1) / 2
    assert results.values == [[factor * i for i in range(1200)]] * n_ranks
    expected = ring_all_reduce_sent_bytes(4 * 1200, n_ranks)
    assert results.payload_bytes("send") == [expected] * n_ranks
    assert results.payload_bytes("recv") == [expected] * n_ranks
    assert results.calls("send") == [2 * (n_ranks - 1)] * n_ranks


@given(
    n_ranks=st.integers(1, 4),
    n_elements=st.integers(0, 5000),
    dtype=st.sampled_from(["float32", "float64", "bfloat16", "int64"]),
)
@settings(max_examples=12, deadline=None)
def test_all_reduce_counts_the_tensor(n_ranks, n_elements, dtype):
    def fn():
        import torch
        import torch.distributed as dist

        x = torch.ones(n_elements, dtype=getattr(torch, dtype))
        dist.all_reduce(x)
        return x.double().sum().item()

    results = run_ranks(fn, n_ranks)
    size = {"float32": 4, "float64": 8, "bfloat16": 2, "int64": 8}[dtype]
    assert results.values == [n_ranks * n_elements] * n_ranks
    assert results.traffic == [{"all_reduce": Traffic(1, size * n_elements)}] * n_ranks


def test_each_collective_counts_its_whole_message():
    def fn():
        import torch
        import torch.distributed as dist

        from aiinfra.measure.counting import CountBytes

        n, rank = dist.get_world_size(), dist.get_rank()
        shard, whole = torch.ones(30), torch.ones(30 * n)
        shards = [torch.ones(30) for _ in range(n)]
        calls = {
            "all_reduce": lambda: dist.all_reduce(whole),
            "broadcast": lambda: dist.broadcast(whole, 1),
            "reduce": lambda: dist.reduce(whole, 1),
            "all_gather list": lambda: dist.all_gather(shards, shard),
            "all_gather": lambda: dist.all_gather_into_tensor(whole, shard),
            "reduce_scatter list": lambda: dist.reduce_scatter(shard, shards),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(shard, whole),
            "all_to_all": lambda: dist.all_to_all_single(torch.empty(30 * n), whole),
            "gather": lambda: dist.gather(shard, shards if rank == 0 else None, 0),
            "scatter": lambda: dist.scatter(shard, shards if rank == 0 else None, 0),
            "barrier": lambda: dist.barrier(),
        }
        counted = {}
        for name, call in calls.items():
            with CountBytes() as counter:
                call()
            counted[name] = {op: tuple(traffic) for op, traffic in counter.traffic.items()}
        return counted

    results = run_ranks(fn, 3)
    whole, shard = 4 * 90, 4 * 30
    for rank, counted in enumerate(results.values):
        rooted = whole if rank == 0 else shard
        for name, traffic in counted.items():
            op = name.removesuffix(" list")
            size = {"gather": rooted, "scatter": rooted}.get(op, whole)
            assert (name, traffic) == (name, {} if op == "barrier" else {op: (1, size)})
    assert results.payload_bytes("all_gather") == [2 * whole] * 3


def test_functional_collectives_count_the_same():
    def fn():
        import torch
        import torch.distributed as dist
        import torch.distributed._functional_collectives as functional

        group = dist.group.WORLD
        (functional.all_reduce(torch.ones(60), "sum", group) + 0).sum()
        (functional.all_gather_tensor(torch.ones(30), 0, group) + 0).sum()
        (functional.reduce_scatter_tensor(torch.ones(60), "sum", 0, group) + 0).sum()

    assert (
        run_ranks(fn, 2).traffic
        == [{"all_reduce": Traffic(1, 240), "all_gather": Traffic(1, 240), "reduce_scatter": Traffic(1, 240)}] * 2
    )


def test_point_to_point_counts_sent_and_received_apart():
    def fn():
        import torch
        import torch.distributed as dist

        peer = 1 - dist.get_rank()
        small, large = torch.ones(10), torch.ones(1000)
        if dist.get_rank() == 0:
            dist.send(small, peer)
            dist.irecv(large, peer).wait()
        else:
            dist.recv(small, peer)
            dist.isend(large, peer).wait()
        both = [dist.P2POp(dist.isend, small, peer), dist.P2POp(dist.irecv, torch.ones(10), peer)]
        for work in dist.batch_isend_irecv(both):
            work.wait()

    assert run_ranks(fn, 2).traffic == [
        {"send": Traffic(2, 80), "recv": Traffic(2, 4040)},
        {"recv": Traffic(2, 80), "send": Traffic(2, 4040)},
    ]


def model_and_bytes():
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU()) for _ in range(4)])
    return model, sum(4 * p.numel() for p in model.parameters())


def test_ddp_all_reduces_every_gradient_once():
    def fn():
        import torch
        from torch.nn.parallel import DistributedDataParallel

        model, n_bytes = model_and_bytes()
        replica = DistributedDataParallel(model)
        replica(torch.ones(2, 64)).sum().backward()
        return n_bytes

    results = run_ranks(fn, 2)
    assert results.payload_bytes("all_reduce") == results.values


@pytest.mark.parametrize(("reshard", "gathers"), [(True, 2), (False, 1)])
def test_fsdp_gathers_parameters_and_scatters_gradients(reshard, gathers):
    def fn():
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        model, n_bytes = model_and_bytes()
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in model:
            fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh)
        model(torch.ones(2, 64)).sum().backward()
        return n_bytes

    results = run_ranks(fn, 4)
    assert results.payload_bytes("all_gather") == [gathers * n_bytes for n_bytes in results.values]
    assert results.payload_bytes("reduce_scatter") == results.values
    assert results.payload_bytes("all_reduce") == [0] * 4


def test_tensor_parallel_all_reduces_once_each_way():
    def fn():
        import torch
        import torch.distributed as dist
        from torch import nn
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        model = nn.Sequential(nn.Linear(64, 256, bias=False), nn.ReLU(), nn.Linear(256, 64, bias=False))
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        model(torch.ones(8, 64, requires_grad=True)).sum().backward()

    results = run_ranks(fn, 2)
    assert results.calls("all_reduce") == [2, 2]
    assert results.payload_bytes("all_reduce") == [2 * 8 * 64 * 4] * 2


def test_what_a_dtensor_does_inside_an_operator_is_counted():
    def fn():
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor

        from aiinfra.measure.counting import CountBytes

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        x = distribute_tensor(torch.ones(8, 8), mesh, [Shard(1)])
        w = distribute_tensor(torch.ones(8, 8), mesh, [Shard(0)])
        with CountBytes() as counter:
            total = (x @ w).full_tensor().sum().item()
        return total, dict(counter.traffic)

    assert run_ranks(fn, 2).values == [(512.0, {"all_reduce": Traffic(1, 256)})] * 2


def test_torchs_own_counters_work_inside_a_rank():
    def fn():
        import torch
        import torch.distributed as dist
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as flops:
            product = torch.ones(8, 16) @ torch.ones(16, 4)
            dist.all_reduce(product)
        return flops.get_total_flops()

    results = run_ranks(fn, 2)
    assert results.values == [2 * 8 * 16 * 4] * 2
    assert results.payload_bytes("all_reduce") == [8 * 4 * 4] * 2


def test_an_operation_that_does_not_exist_is_refused():
    results = run_ranks(lambda: None, 1)
    assert results.payload_bytes("all_reduce") == [0]
    with pytest.raises(ValueError, match="'allreduce' is not known; nearest: 'all_reduce'"):
        results.payload_bytes("allreduce")


# ---- what goes wrong


def test_a_rank_that_raises_ends_the_others():
    def fn():
        import torch
        import torch.distributed as dist

        print("about to fail")
        if dist.get_rank() == 2:
            raise KeyError("lost")
        dist.all_reduce(torch.ones(1))

    with pytest.raises(RankError, match="rank 2 of 4 failed") as caught:
        run_ranks(fn, 4)
    message = str(caught.value)
    assert caught.value.ranks == [2]
    assert caught.value.output == ["about to fail\n"] * 4
    assert "rank 2 raised KeyError:" in message
    assert 'raise KeyError("lost")' in message
    assert __file__ in message
    assert "last output:\n  about to fail" in message
    assert "worker.py" not in message


def test_all_ranks_that_raise_are_named():
    with pytest.raises(RankError, match="ranks 0, 1, 2 of 3 failed") as caught:
        run_ranks(lambda: 1 / 0, 3)
    assert "ranks 0, 1, 2 raised ZeroDivisionError:" in str(caught.value)
    assert str(caught.value).count("ZeroDivisionError: division by zero") == 1


@pytest.mark.parametrize(
    ("death", "text"),
    [
        (lambda: os._exit(3), "rank 1 ended its process with exit code 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "rank 1 died of signal SIGKILL"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "rank 1 died of signal SIGSEGV"),
        (lambda: sys.exit("enough"), "rank 1 raised SystemExit"),
    ],
)
def test_a_rank_that_dies_is_named(death, text):
    def fn():
        import torch
        import torch.distributed as dist

        if dist.get_rank() == 1:
            death()
        dist.all_reduce(torch.ones(1))

    with pytest.raises(RankError, match=text) as caught:
        run_ranks(fn, 3)
    assert caught.value.ranks == [1]


def test_ranks_that_hang_are_named_and_located():
    def fn():
        import torch
        import torch.distributed as dist

        if dist.get_rank() == 0:
            return "done"
        if dist.get_rank() == 1:
            while True:
                pass
        dist.all_reduce(torch.ones(1))

    with pytest.raises(RankError, match="ranks 1, 2 of 3 failed; all ranks were ended\nrank 0 had returned") as caught:
        run_ranks(fn, 3, timeout_s=0.5)
    message = str(caught.value)
    assert caught.value.ranks == [1, 2]
    assert "rank 1 had not finished after 0.5 s" in message
    assert "while True:" in message or "pass" in message
    assert "dist.all_reduce(torch.ones(1))" in message
    assert "worker.py" not in message


def test_a_rank_that_prints_without_end_is_ended():
    def fn():
        while True:
            print("x" * 1000)

    with pytest.raises(RankError, match=r"printed more than 16.8 MB"):
        run_ranks(fn, 1)


def test_values_that_cannot_travel_are_named():
    with pytest.raises(RankError, match="rank 0 returned a generator that cannot be sent back"):
        run_ranks(lambda: (i for i in range(3)), 1)
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"cannot be sent to the ranks: .*_thread.lock"):
        run_ranks(lambda: lock, 1)


def test_whatever_a_rank_started_ends_with_it():
    def fn(fate):
        import subprocess
        import sys

        sleep = [sys.executable, "-c", "import time; time.sleep(1000)"]
        subprocess.Popen(sleep)
        subprocess.Popen(sleep, start_new_session=True)
        if os.fork() == 0:
            os.setsid()
            subprocess.Popen(sleep, start_new_session=True)
            os._exit(0)
        if fate == "raise":
            raise ValueError
        if fate == "die":
            os._exit(1)

    run_ranks(fn, 2, "return")
    for fate in ("raise", "die"):
        with pytest.raises(RankError):
            run_ranks(fn, 2, fate)
        assert only_the_supervisor()


def test_a_supervisor_that_was_killed_is_reported_and_replaced():
    def fn():
        import time

        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1000)

    with pytest.raises(RankError, match="the process that watches over the ranks has ended"):
        run_ranks(fn, 2)
    assert gone()
    assert run_ranks(lambda: 1, 2).values == [1, 1]


def test_ranks_do_not_start_ranks(tmp_path, monkeypatch):
    """Such as a script whose function is imported by the ranks, and which calls run_ranks when imported."""
    script = """
        from aiinfra.measure.ranks import run_ranks

        def fn():
            return 1

        values = run_ranks(fn, 2).values
    """
    (tmp_path / "unguarded.py").write_text(textwrap.dedent(script))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RankError, match="run_ranks was called inside a rank; if fn is in a file that calls run_ranks"):
        importlib.import_module("unguarded")


def test_temporary_files_of_a_rank_are_removed():
    def fn():
        import tempfile

        return [tempfile.mkdtemp(), tempfile.mkstemp()[1], os.environ["TMPDIR"]]

    assert not any(os.path.exists(path) for value in run_ranks(fn, 2).values for path in value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("f", 2), "fn must be a function to run on each rank, got 'f'"),
        ((print, 0), "n_ranks must be a whole number of at least 1, got 0"),
        ((print, 2.5), "n_ranks must be a whole number of at least 1, got 2.5"),
        ((print, True), "n_ranks must be a whole number of at least 1, got True"),
        ((print, 65), "n_ranks must be a whole number of at most 64, got 65"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message):
    with pytest.raises(ValueError, match=message):
        run_ranks(*arguments)


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), "soon", None])
def test_time_limits_that_make_no_sense(timeout_s):
    with pytest.raises(ValueError, match="timeout_s must be a finite number greater than 0"):
        run_ranks(print, 2, timeout_s=timeout_s)


# ---- interrupts, deaths and other places


@pytest.fixture
def elsewhere(tmp_path):
    """Environment for processes with a mark and a temporary folder of their own; both must be clean at the end."""
    (tmp_path / "tmp").mkdir()
    mark = f"{MARK}-{uuid.uuid4()}"
    yield os.environ | {"MARK": mark, "TMPDIR": str(tmp_path / "tmp")}
    assert gone(mark)
    assert [name for name in os.listdir(tmp_path / "tmp") if "torch" not in name] == []


HANG = """
    import sys, time
    from aiinfra.measure.ranks import run_ranks

    def fn():
        import subprocess, sys, time
        import torch.distributed as dist
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        dist.barrier()
        if dist.get_rank() == 0:
            open("started", "w").close()
        while True:
            pass

    run_ranks(fn, 2, timeout_s=1000)
"""


def start_hanging(tmp_path, environment):
    (tmp_path / "job.py").write_text(textwrap.dedent(HANG))
    process = subprocess.Popen(
        [sys.executable, "job.py"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.05)
    return process


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_ends_the_ranks(tmp_path, elsewhere):
    process = start_hanging(tmp_path, elsewhere)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1].splitlines()[-1] == "KeyboardInterrupt"
    assert marked(elsewhere["MARK"]) == []


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ranks_do_not_survive_the_death_of_their_notebook(tmp_path, elsewhere):
    process = start_hanging(tmp_path, elsewhere)
    assert len(marked(elsewhere["MARK"])) > 3
    process.kill()
    process.communicate()


def run_cells(cells, environment, allow_errors=False):
    """The notebook made of `cells`, executed by a real kernel, and a client to look at it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(c).strip()) for c in cells])
    client = nbclient.NotebookClient(notebook, kernel_name="python3", timeout=120, allow_errors=allow_errors)
    client.execute(env=environment)
    return [cell.outputs for cell in notebook.cells]


def test_functions_of_notebook_cells_run_on_ranks(elsewhere):
    outputs = run_cells(
        [
            "from aiinfra.measure.ranks import run_ranks",
            """
            import torch
            import torch.distributed as dist

            scale = 10

            class Answer:
                def __init__(self, value):
                    self.value = value

            def step(x):
                total = torch.tensor([scale * (x + dist.get_rank())])
                dist.all_reduce(total)
                print("hello")
                return Answer(total.item())
            """,
            """
            results = run_ranks(step, 2, 3)
            print([value.value for value in results.values], isinstance(results.values[0], Answer))
            """,
            "results.payload_bytes('all_reduce')",
            """
            def broken():
                if dist.get_rank() == 1:
                    bad = 1 / 0
                dist.barrier()

            run_ranks(broken, 2)
            """,
        ],
        elsewhere,
        allow_errors=True,
    )
    assert [o["text"] for o in outputs[2]] == ["[70, 70] True\n"]
    assert outputs[3][0]["data"]["text/plain"] == "[8, 8]"
    (error,) = outputs[4]
    assert error["ename"] == "RankError"
    assert "bad = 1 / 0" in error["evalue"]
    assert "ZeroDivisionError: division by zero" in error["evalue"]


def test_a_kernel_interrupt_ends_the_cell_and_the_next_one_works(tmp_path, elsewhere):
    interrupt = """
        import os, signal, threading, time

        def interrupt():
            while not os.path.exists(PATH):
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
    """.replace("PATH", repr(str(tmp_path / "started")))
    hang = HANG.replace('"started"', repr(str(tmp_path / "started")))
    after = "print(run_ranks(lambda: 5, 2).values)"
    outputs = run_cells([interrupt, hang, after], elsewhere, allow_errors=True)
    assert [o.get("ename") for o in outputs[1]] == ["KeyboardInterrupt"]
    assert outputs[2][0]["text"] == "[5, 5]\n"


JOB = """
    import torch
    import torch.distributed as dist
    from aiinfra.measure.ranks import device, main

    def fn(scale):
        x = torch.full((4,), float(scale * (dist.get_rank() + 1)), device=device())
        dist.all_reduce(x)
        return x.sum().item(), dist.get_world_size()

    if __name__ == "__main__":
        main(fn, 10)
"""


def run_job(tmp_path, command, environments):
    """What each process of a job printed, one process for each environment."""
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB))
    jobs = [
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
        for environment in environments
    ]
    return [job.communicate(timeout=120)[0] for job in jobs]


def test_the_same_function_runs_under_torchrun(tmp_path, elsewhere):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "job.py"]
    assert run_job(tmp_path, torchrun, [elsewhere]) == ["(120.0, 2)\n"]


def test_the_same_function_runs_under_slurm(tmp_path, elsewhere):
    with_port = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "SLURM_NTASKS": "2"}
    environments = [
        elsewhere | with_port | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)} for rank in range(2)
    ]
    assert run_job(tmp_path, [sys.executable, "job.py"], environments) == ["(120.0, 2)\n", ""]


def free_port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_main_without_a_launcher_says_what_is_missing(tmp_path, elsewhere):
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB))
    done = subprocess.run([sys.executable, "job.py"], cwd=tmp_path, env=elsewhere, capture_output=True, text=True)
    assert "RuntimeError: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT not set" in done.stderr


def test_ranks_run_inside_a_sandbox(tmp_path, elsewhere):
    sandbox = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]
    sandbox += ["--tmpfs", "/run", "--proc", "/proc", "--dev", "/dev"]  # /run: the project itself may lie in /tmp
    if shutil.which("bwrap") is None or subprocess.run([*sandbox, "true"]).returncode != 0:
        complain = pytest.fail if os.environ.get("CI") else pytest.skip
        complain("no bubblewrap here")
    job = """
        import os, resource
        resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 2**20, 64 * 2**20))
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        from aiinfra.measure.ranks import run_ranks

        def fn():
            import torch
            import torch.distributed as dist
            x = torch.ones(10)
            dist.all_reduce(x)
            return x.sum().item()

        print(run_ranks(fn, 4).values, os.listdir("/run"))
    """
    command = [*sandbox, sys.executable, "-c", textwrap.dedent(job)]
    environment = elsewhere | {"TMPDIR": "/run"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("[40.0, 40.0, 40.0, 40.0] []\n", 0), done.stderr
