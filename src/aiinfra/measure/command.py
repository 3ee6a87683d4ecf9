"""The command `aiinfra measure`."""

import sys
import time

EPILOG = """\
Measure while the machine does nothing else. FILE.csv is what aiinfra.accelerators.from_measurement reads; a second
measurement into the same file is added to it."""
_LINE_EVERY_S = 10.0  # where the progress goes to a file


def add_arguments(parser):
    """Say what `aiinfra measure` takes."""
    parser.epilog = EPILOG
    kinds = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    matmul = kinds.add_parser("matmul", help="the highest rate of matrix products, over shapes that a search finds")
    matmul.add_argument("--dtype", default="fp32", help="fp64, fp32, bf16 or fp16; default fp32")
    bandwidth = kinds.add_parser("bandwidth", help="the rate of memory: copy and triad of arrays beyond the caches")
    for parser_of_one, budget_s in ((matmul, 120.0), (bandwidth, 10.0)):
        parser_of_one.add_argument(
            "--budget-s", metavar="S", type=float, default=budget_s, help=f"seconds to spend; default {budget_s:g}"
        )
        parser_of_one.add_argument("--device", help="cpu or cuda; default the GPU where there is one")
        parser_of_one.add_argument("--out", metavar="FILE.csv", help="add what is measured to this file")


def main(options):
    """Measure, print, write, and return the exit status: 0 done, 1 no PyTorch, 2 wrong use, 130 interrupted."""
    try:
        return _main(options)
    except ModuleNotFoundError as error:
        if error.name not in ("numpy", "torch"):
            raise
        return _refuse("PyTorch is needed: pip install 'aiinfra[torch]'", 1)
    except (ValueError, OSError) as error:
        return _refuse(str(error), 2)
    except KeyboardInterrupt:
        return _refuse("interrupted before anything was measured; nothing is written", 130)


def _main(options):
    import torch

    from aiinfra.measure import device, record

    kind = device.get(options.device)
    about = device.about(kind, torch.get_num_threads())
    if options.out:
        record.check(options.out, about)
    result = _measured(options, kind.type)
    print(result)
    print(f"{about['item']}, {about['driver']}, {about['software']}, {about['date']}")
    if options.out:
        record.write(options.out, result)
        print(f"Written: {options.out}")
    return 130 if result.interrupted else 0


def _measured(options, kind):
    """The result, with a line of progress on the way."""
    from aiinfra.measure.bandwidth import memory_bandwidth
    from aiinfra.measure.best_matmul import best_matmul

    progress = Progress(sys.stderr)
    try:
        if options.what == "matmul":
            return best_matmul(options.dtype, options.budget_s, kind, progress.matmul)
        return memory_bandwidth(options.budget_s, kind, progress.bandwidth)
    finally:
        progress.end()


def _refuse(sentence, status):
    print(f"aiinfra measure: {sentence}", file=sys.stderr)
    return status


class Progress:
    """One line that is written over on a terminal; a line now and then where it goes to a file."""

    def __init__(self, stream, clock=time.monotonic):
        self.stream, self.clock = stream, clock
        self.on_terminal = stream.isatty()
        self.every_s = 0.2 if self.on_terminal else _LINE_EVERY_S
        self.next_s = -1.0
        self.shown = False

    def matmul(self, shape, flop_per_s, left_s):
        from aiinfra.units import format_flop_per_s

        self._say(f"best so far {format_flop_per_s(flop_per_s)} at m {shape.m}, n {shape.n}, k {shape.k}", left_s)

    def bandwidth(self, best, left_s):
        from aiinfra.units import format_bytes_per_s

        rates = ", ".join(f"{name} {format_bytes_per_s(rate)}" for name, rate in best.items())
        self._say(f"best so far {rates}", left_s)

    def _say(self, text, left_s):
        if self.clock() < self.next_s:
            return
        self.next_s = self.clock() + self.every_s
        line = f"{text}; {left_s:.0f} s left"
        self.stream.write(f"\r{line:78}" if self.on_terminal else f"{line}\n")
        self.stream.flush()
        self.shown = True

    def end(self):
        if self.on_terminal and self.shown:
            self.stream.write("\r" + " " * 78 + "\r")
            self.stream.flush()
