"""The command `aiinfra grade`: what it takes, and what it refuses before anything is run."""

import argparse
import datetime
import os
import secrets
import sys
import textwrap
from pathlib import Path

from aiinfra.units import nearest

EPILOG = """\
SUBMISSIONS is a folder or a zip file: alice.ipynb, or a folder alice with her notebook, for each student, or what
Canvas or Moodle give as the download of all submissions.

{rule}

DIR receives gradebook.csv, a page for each student in feedback/, summary.html about the class, manual.csv for the
points that a person gives, and results.json with everything. All of them are whole at any moment.

Exit status: 0 all graded, 1 the grader's own trouble or a line of manual.csv that can't be used, 2 wrong use."""
_UNSAFE = "Without a sandbox a notebook can do whatever you can. If you trust every notebook, say --no-sandbox."


def add_arguments(parser):
    """Say what `aiinfra grade` takes."""
    from aiinfra.grading.intake.submissions import RULE

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG.format(rule=textwrap.fill(f"Which notebook counts: {RULE}", 112))
    parser.add_argument("submissions", metavar="SUBMISSIONS", type=Path, nargs="?", help="folder or zip of notebooks")
    parser.add_argument("--lab", metavar="STEM", help="the lab, such as accelerators")
    parser.add_argument("--out", metavar="DIR", type=Path, help="where the results go; one folder for each lab")
    parser.add_argument("--self-test", action="store_true", help="test sandbox, labs and grader; all labs, or --lab's")
    running = parser.add_argument_group("running")
    running.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count() or 1, help="notebooks at a time")
    running.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster whose workers run the notebooks")
    running.add_argument("--resume", action="store_true", help="keep what DIR has finished of the same notebooks")
    running.add_argument("--only", metavar="STUDENT", action="append", help="grade these alone, keep the other rows")
    running.add_argument(
        "--no-sandbox", action="store_true", help="run the notebooks with all your rights; only for notebooks you trust"
    )
    rules = parser.add_argument_group("rules")
    rules.add_argument(
        "--deadline", metavar="TIME", type=_time, help="such as 2026-11-20T23:59, in this machine's zone"
    )
    rules.add_argument("--roster", metavar="CSV", type=Path, help="the class: from Canvas, Moodle, or a column student")
    rules.add_argument("--parameters", choices=["per-student"], help="the lab's parameters as they were released")
    rules.add_argument("--secret", metavar="FILE", type=Path, help="the class's secret, for --parameters")
    rules.add_argument(
        "--seed", type=int, help="of the hidden inputs; keep it to yourself; default drawn once for each DIR"
    )
    rules.add_argument("--lab-notebook", metavar="PATH", help="the released notebook; default labs/STEM.ipynb")
    results = parser.add_argument_group("results")
    results.add_argument("--lms", choices=["canvas", "moodle"], help="also write DIR/canvas.csv or DIR/moodle.csv")
    results.add_argument("--assignment", metavar="NAME", help="its name in Canvas, such as 'Lab 1 (98765)'")


def _time(text):
    try:
        return datetime.datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a time such as 2026-11-20T23:59, got {text!r}") from None


def main(options):
    """Grade, say how it went, and return the exit status."""
    from aiinfra.grading import batch, selftest
    from aiinfra.grading.execution.available import why_not
    from aiinfra.grading.execution.cluster import ClusterError
    from aiinfra.grading.grade import load_lab

    if options.self_test:
        return selftest.main(options)
    try:
        _check(options)
        problem = None if options.no_sandbox or options.scheduler else why_not()
        if problem:
            return refuse(f"{problem}\n{_UNSAFE}")
        lab = load_lab(options.lab, options.lab_notebook)
        options.out.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        return refuse(str(error))
    try:
        with batch.alone(options.out):  # before an archive is unpacked: another grader may be reading what was
            return _run(options, lab)
    except BlockingIOError:
        return refuse(f"another grader is writing into {options.out}; wait for it, or choose another folder")
    except ClusterError as error:
        return refuse(str(error))


def _run(options, lab):
    from aiinfra.grading.batch import run
    from aiinfra.grading.execution.cluster import Cluster
    from aiinfra.grading.execution.warm import worth_importing

    try:
        plan = _plan(options, lab)
    except (ValueError, OSError) as error:
        return refuse(str(error))
    if not options.scheduler:
        return run(plan, options.out, options.jobs)
    modules = worth_importing(plan.settings.lab.cells)
    with Cluster(options.scheduler, modules, plan.settings.isolated) as cluster:
        return run(plan, options.out, max(options.jobs, cluster.n_threads), cluster.execute)


def refuse(sentence, command="grade"):
    print(f"aiinfra {command}: {sentence}", file=sys.stderr)
    return 2


def _check(options):
    """Raise ValueError for arguments that do not make sense."""
    for name, value in (("SUBMISSIONS", options.submissions), ("--lab", options.lab), ("--out", options.out)):
        if value is None:
            raise ValueError(f"{name} is missing; expected: aiinfra grade SUBMISSIONS --lab STEM --out DIR")
    if not options.submissions.exists():
        raise ValueError(f"there is no folder {options.submissions}, and no such zip file")
    if options.jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {options.jobs}")
    if bool(options.parameters) != bool(options.secret):
        raise ValueError("--parameters per-student and --secret FILE need each other; give both, or neither")
    if options.assignment and options.lms != "canvas":
        raise ValueError("--assignment names a column of Canvas; it needs --lms canvas")


def _plan(options, lab):
    """The `batch.Plan`. Raises ValueError."""
    from aiinfra.grading import batch
    from aiinfra.grading.grade import Settings
    from aiinfra.grading.intake import roster
    from aiinfra.grading.records import journal

    earlier = journal.lab_of(options.out)
    if earlier not in (None, lab.stem):
        raise ValueError(f"{options.out} holds the results of lab {earlier!r}; choose another folder for {lab.stem!r}")
    people = roster.read(options.roster) if options.roster else None
    submissions = _submissions(options, lab, people)
    known = {submission.student for submission in submissions}
    for student in options.only or ():
        if student not in known:
            raise ValueError(f"--only {student!r}: there is no such student; {nearest(student, known)}")
    return batch.Plan(
        settings=Settings(lab, _seed(options), isolated=not options.no_sandbox),
        submissions=submissions,
        only=frozenset(options.only or ()),
        resume=options.resume,
        roster=people,
        lms=options.lms,
        assignment=options.assignment or lab.stem,
        deadline=options.deadline,
    )


def _submissions(options, lab, people):
    """What is graded, with the parameters of each student, and a row for who handed in nothing."""
    import dataclasses

    from aiinfra.grading import parameters
    from aiinfra.grading.intake.submissions import Submission, find

    found = find(options.submissions, options.out, options.deadline, options.out / "submissions")
    if not found:
        raise ValueError(f"there is no notebook in {options.submissions}")
    downloaded = sum(bool(submission.number) for submission in found)
    if options.deadline and downloaded:
        print(f"--deadline says nothing about {downloaded} of the students: a download carries no times of their own.")
    persons = [people.of(submission) if people else None for submission in found]
    there = {person.key for person in persons if person}
    missing = [person for person in (people.people if people else ()) if person.key not in there]
    found += [Submission(p.student, problem="Nothing was handed in.", number=p.number, name=p.name) for p in missing]
    wanted = parameters.names(lab.cells) if options.parameters else []
    if not wanted:
        return found
    secret = parameters.read_secret(options.secret)
    return [
        dataclasses.replace(
            submission,
            parameters=parameters.derive(
                secret, lab.stem, person.key if person else submission.number or submission.student, wanted
            ),
        )
        for submission, person in zip(found, [*persons, *missing], strict=True)
    ]


def _seed(options):
    """The seed that was given, that of an earlier run into the same folder, or a new one that nobody can guess."""
    from aiinfra.grading.records.gradebook import earlier_seed

    if options.seed is not None:
        return options.seed
    earlier = earlier_seed(options.out / "results.json")
    return secrets.randbelow(10**9) if earlier is None else earlier
