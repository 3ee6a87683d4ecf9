"""Stands for the package `aiinfra` while a notebook is graded.

Every module of it can be imported and every name in it is there, but nothing does anything: the lab's own cells and a
learner's `check(...)` run on harmlessly, and a learner's function that calls the package gets no number.
"""

import importlib.machinery
import sys
import types

__path__: list[str] = []  # makes the import system ask for submodules


class NotWhileGrading:
    """Any function, class or value of the package. Can be called, looked into and iterated over, to no effect."""

    def __call__(self, *args, **kwargs):
        return self

    def __getattr__(self, name):
        if name.startswith("_") or name == "tolist":
            raise AttributeError(name)
        return self

    def __getitem__(self, key):
        return self

    def __iter__(self):
        return iter(())

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False

    def __repr__(self):
        return "<not available while grading>"


class _Module(types.ModuleType):
    def __getattr__(self, name):
        return _anything(name)


class _Finder:
    """Finds every submodule of the package, as an empty one."""

    def find_spec(self, name, path=None, target=None):
        if not name.startswith(__name__ + "."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


def _anything(name):
    if name.startswith("_"):
        raise AttributeError(name)
    return NotWhileGrading()


__getattr__ = _anything
sys.meta_path.insert(0, _Finder())
