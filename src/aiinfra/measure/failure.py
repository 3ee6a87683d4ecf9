"""What went wrong in a rank, told so that a learner finds the line."""

import itertools
import linecache
import re
import signal
from pathlib import Path

from aiinfra.measure import supervisor, worker
from aiinfra.units import format_bytes

_CASES_SHOWN, _TAIL_LINES, _TAIL_WIDTH = 4, 20, 200  # in one message; lines and columns are those of the output


class RankError(RuntimeError):
    """A rank raised, died, printed without end or was not finished in time. All ranks have been ended.

    Attributes
    ----------
    ranks : list[int]       the ranks at fault
    output : list[str]      what each rank had printed, by rank
    """

    def __init__(self, message, ranks=(), output=()):
        super().__init__(message)
        self.ranks = list(ranks)
        self.output = list(output)


def rank_error(reply, reports, output, stuck, timeout_s):
    """The RankError of a call that failed: which ranks, what happened, where, and their last output."""
    phases = reply["phases"]
    causes = {
        "failed": ["died", "flooded", "raised"],  # a rank that died makes others raise, so it comes first
        "timeout": ["running"],
        "slow start": ["starting"],
    }[reply["reason"]]
    cause = next(phase for phase in causes if phase in phases)
    ranks = [rank for rank, phase in enumerate(phases) if phase == cause]
    finished = [rank for rank, phase in enumerate(phases) if phase == "returned"]
    alike: dict[tuple[str, str, str], list[int]] = {}  # what happened -> the ranks it happened to
    for rank in ranks:
        where = _where(stuck[rank]) if cause == "running" else reports[rank].get("error", "").rstrip()
        tail = "\n".join(f"  {line[:_TAIL_WIDTH]}" for line in output[rank].splitlines()[-_TAIL_LINES:])
        what = _what_happened(cause, reply["exit_codes"][rank], reports[rank], timeout_s)
        alike.setdefault((what, where, tail), []).append(rank)
    lines = [f"{_names(ranks)} of {len(phases)} failed; all ranks were ended"]
    lines += [f"{_names(finished)} had returned"] if finished else []
    for (what, where, tail), those in list(alike.items())[:_CASES_SHOWN]:
        lines += ["", f"{_names(those)} {what}", *filter(None, [where, tail and "last output:", tail])]
    if len(alike) > _CASES_SHOWN:
        lines += ["", "and the other ranks likewise"]
    return RankError("\n".join(lines), ranks, output)


def _names(ranks):
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _what_happened(cause, exit_code, report, timeout_s):
    if cause == "raised":
        return f"raised {report['error_type']}:"
    if cause == "flooded":
        return f"printed more than {format_bytes(supervisor.OUTPUT_LIMIT_BYTES)}"
    if cause == "starting":
        return f"was not connected to the others after {supervisor.START_LIMIT_S:g} s"
    if cause == "running":
        return f"had not finished after {timeout_s:g} s"
    if exit_code < 0:
        return f"died of signal {signal.Signals(-exit_code).name}"
    return f"ended its process with exit code {exit_code}"


def _where(dump):
    """The frames inside the learner's function, from a dump of all threads by faulthandler, with their source."""
    for thread in re.split(r"^(?=Thread |Current thread )", dump, flags=re.MULTILINE):
        frames = re.findall(r'^  File "(.+)", line (\d+) in (.+)$', thread, flags=re.MULTILINE)
        if not any(file == worker.__file__ and name == "run" for file, _, name in frames):
            continue
        lines = ["most recent call first:"]
        for file, line, name in itertools.takewhile(lambda frame: frame[0] != worker.__file__, frames):
            if Path(file).parent != Path(__file__).parent:  # the byte counter's frames are of no interest
                lines.append(f'  File "{file}", line {line}, in {name}')
                source = linecache.getline(file, int(line)).strip()
                lines += [f"    {source}"] if source else []
        return "\n".join(lines)
    return "(it did not say where)"
