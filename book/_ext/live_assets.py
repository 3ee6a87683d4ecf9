"""What a page with live figures loads: Pyodide, the Python packages, Vega and this book's front end.

Everything is part of the built site, under `_static/`. Each address names a version or a hash of the content, so
that neither a browser's cache nor a host's can mix two builds, and an unchanged Pyodide is not loaded again.
"""

import gzip
import hashlib
import json
from pathlib import Path, PurePosixPath

import live_python
import npm

PYODIDE = npm.Package(
    "pyodide",
    "314.0.7",
    "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A==",
)
MATHJAX = npm.Package(
    "mathjax",
    "3.2.2",
    "Bt+SSVU8eBG27zChVewOicYs7Xsdt40qm4+UpHyX7k0/O9NliPc+x77k1/FEsPsjKPZGJvtRZM1vO+geW0OhGw==",
)
FRONT_END = Path(__file__).parent.parent / "_static" / "live"

_PYODIDE_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip")
_GZIPPED = {".js", ".mjs", ".wasm", ".json", ".css", ".py"}


def live(course):
    """({path under _static: bytes}, folder of the front end) of everything that live figures need.

    `course` is the archive of the course's package.
    """
    pyodide = npm.files(PYODIDE, lambda path: path in _PYODIDE_FILES)
    # Pyodide insists on a lock file; no package of its distribution is used, so the list can be empty.
    lock = json.loads(pyodide["pyodide-lock.json"])
    pyodide["pyodide-lock.json"] = json.dumps({**lock, "packages": {}}).encode()
    python = live_python.standard_library(pyodide)
    del pyodide["python_stdlib.zip"]

    home = f"live/pyodide-{PYODIDE.version}"
    vega = _vega_bundle()
    named = {
        "PYTHON": (f"live/python-{short_hash(python)}.zip", python),
        "COURSE": (f"live/course-{short_hash(course)}.zip", course),
        "VEGA": (f"live/vega-{short_hash(vega)}.js", vega),
    }
    files = {f"{home}/{name}": body for name, body in pyodide.items()} | dict(named.values())
    paths = {"PYODIDE": f"{home}/", **{name: path for name, (path, _body) in named.items()}}

    front = {path.name: path.read_bytes() for path in sorted(FRONT_END.iterdir()) if path.suffix in {".js", ".py"}}
    front["assets.js"] = _assets_module(files, paths)
    folder = "live/" + short_hash(b"".join(name.encode() + body for name, body in front.items()))
    return files | {f"{folder}/{name}": body for name, body in front.items()}, folder


def mathjax():
    """({path under _static: bytes}, path of the script) of what draws formulas, instead of a copy on another host."""
    home = f"mathjax-{MATHJAX.version}"
    parts = ("es5/tex-chtml.js", "es5/input/tex/extensions/", "es5/output/chtml/fonts/woff-v2/")
    files = npm.files(MATHJAX, lambda path: path.startswith(parts))
    short = {name.removeprefix("es5/"): body for name, body in files.items()}
    return {f"{home}/{name}": body for name, body in short.items()}, f"{home}/tex-chtml.js"


def style_sheet():
    """({path under _static: bytes}, that path) of the style of figures, still or live."""
    body = (FRONT_END / "live.css").read_bytes()
    path = f"live/live-{short_hash(body)}.css"
    return {path: body}, path


def write(files, static):
    """Writes {path: bytes} under the folder `static` where it is not there already, byte for byte."""
    for name, body in files.items():
        path = Path(static) / name
        if not path.is_file() or path.read_bytes() != body:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)


def clear(files, static, folder):
    """Removes from `folder` under `static` what an earlier build has left there and `files` does not name."""
    for path in sorted(Path(static, folder).rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        elif path.is_file() and path.relative_to(static).as_posix() not in files:
            path.unlink()


def short_hash(body):
    return hashlib.sha256(body).hexdigest()[:10]


def _vega_bundle():
    """Vega, Vega-Lite and vega-embed as one script. Making it takes a second, so it is kept beside the downloads."""
    import vl_convert

    kept = npm.cache_dir() / f"vega-{vl_convert.__version__}.js"
    if not kept.exists():
        npm.keep(kept, vl_convert.javascript_bundle().encode())
    return kept.read_bytes()


def _assets_module(files, paths):
    """The generated module that tells the front end where its parts are and how much they weigh."""
    counted = sum(len(body) for name, body in files.items() if name.endswith((".wasm", ".zip")))
    values = {
        **{name: f'new URL("{path.replace("live/", "../")}", import.meta.url).href' for name, path in paths.items()},
        "BYTES_ON_THE_WIRE": sum(map(_on_the_wire, files, files.values())),
        "BYTES_TO_COUNT": counted,
    }
    return "".join(f"export const {name} = {value};\n" for name, value in values.items()).encode()


def _on_the_wire(name, body):
    """Bytes of a file as a web host sends it: text and WebAssembly gzipped, archives as they are."""
    return len(gzip.compress(body, 6)) if PurePosixPath(name).suffix in _GZIPPED else len(body)
