"""The grader: a folder of notebooks in, a gradebook and a feedback page for each learner out.

How a notebook travels::

    release ... submissions (archives) -> notebooks -> assemble (parameters) -> run (sandbox: inside/driver)
        -> grade -> journal -> manual -> gradebook, feedback, summary, answers, lms

`intake` reads what comes in, `execution` runs it apart from everything else, `grade` judges what it told, `records`
writes it down. `command` says what is taken, `batch` does it for a class, here or on a `cluster`, `selftest` tries all
of it on the machine at hand.

What makes it hard to beat:

- Only answer cells are taken from a learner's notebook; all else comes from the instructor's lab (`assemble`).
- A notebook runs by papermill in its own sandbox, without network and without the instructor's files (`sandbox`). Two
  share nothing but memory from before any notebook was read, for reading (`warm`, `inside/warm`).
- Values leave the sandbox, grades never do: the expected values and the misconceptions are computed outside, after the
  learner's process has ended (`grade`). Whoever forges the values must know the right ones, which is to answer.
- The package itself is not there inside the sandbox, so its own answers can't be called (`inside/masked`), and a try at
  it is named (`package_use`).

What it can't do: tell an answer that was pasted, from the package's source or from a friend, from one that was written;
it grades functions, not authorship. And the sandbox is as strong as the kernel's namespaces, not a virtual machine.
"""
