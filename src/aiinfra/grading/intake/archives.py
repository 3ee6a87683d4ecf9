"""Unpacking a zip file that a learning management system made of what students handed in.

Nothing in it is trusted. A name never decides where something is written outside of the target folder; sizes are
counted while reading, not believed; links, encrypted entries and archives within are not followed. What is wrong with
one entry becomes a sentence for its student; only an archive that is wrong as a whole is refused.
"""

import contextlib
import os
import shutil
import stat
import tempfile
import time
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from aiinfra.grading.intake.notebooks import MAX_BYTES

MAX_ENTRIES = 20_000
MAX_TOTAL_BYTES = 4_000_000_000
MAX_RATIO = 250  # of an entry of more than a megabyte; text packs to a tenth or so
_UTF8_FLAG, _ENCRYPTED_FLAG = 0x800, 0x1


@dataclass(frozen=True)
class Entry:
    """One file: its name as `parts` of a path, where it lies now, or the `problem` for which it is not there."""

    parts: tuple[str, ...]
    path: Path | None = None
    problem: str = ""


def is_archive(path):
    """Whether `path` is a file that calls itself a zip archive, or is one."""
    return path.is_file() and (path.suffix.lower() == ".zip" or zipfile.is_zipfile(path))


def unpack(archive, folder):
    """Unpack the notebooks of `archive` into `folder`, which is replaced as a whole; the list of `Entry`, by name.

    Other files are listed and not unpacked. Raises ValueError for an archive that can't be used.
    """
    folder = Path(folder)
    try:
        with zipfile.ZipFile(archive) as opened:
            infos = [info for info in opened.infolist() if not info.is_dir()]
            _check(archive, infos)
            fresh = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder.parent))
            try:
                entries = _unpack_all(opened, infos, fresh, _prefix(archive, infos))
                shutil.rmtree(folder, ignore_errors=True)
                os.replace(fresh, folder)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise ValueError(f"{archive} is not a zip file that can be read: {error}") from None
    return [
        Entry(entry.parts, entry.path and folder / entry.path.relative_to(fresh), entry.problem) for entry in entries
    ]


def _check(archive, infos):
    if len(infos) > MAX_ENTRIES:
        raise ValueError(f"{archive} has {len(infos):,} files; at most {MAX_ENTRIES:,} are unpacked")
    wanted = [info for info in infos if _is_notebook(info.filename)]
    total = sum(min(info.file_size, MAX_BYTES) for info in wanted)
    if total > MAX_TOTAL_BYTES:
        raise ValueError(f"{archive} holds {total / 1e9:.1f} GB; at most {MAX_TOTAL_BYTES / 1e9:.0f} GB are unpacked")


def _is_notebook(name):
    return name.lower().endswith(".ipynb")


def _prefix(archive, infos):
    """The folder that holds everything and is called like the archive, as zipping a folder makes it; else None."""
    tops = {_parts(info)[0] for info in infos if _parts(info) and not _is_rubbish(_parts(info))}
    stem = Path(archive).stem
    return stem if tops == {stem} and all(len(_parts(info)) != 1 for info in infos) else None


def _parts(info):
    """The name of an entry as parts of a path. Names without the mark of UTF-8 often are UTF-8 nevertheless."""
    name = info.filename
    if not info.flag_bits & _UTF8_FLAG:
        try:
            name = name.encode("cp437").decode("utf-8")
        except UnicodeError:
            name = info.filename
    return tuple(name.replace("\\", "/").split("/"))


def _is_rubbish(parts):
    return any(part.startswith(".") and part != ".." for part in parts) or parts[0] == "__MACOSX"


def _unpack_all(opened, infos, folder, prefix):
    entries, total = [], 0
    for info in infos:
        parts = _parts(info)
        parts = parts[1:] if prefix and parts[0] == prefix else parts
        if _is_rubbish(parts):
            continue
        problem = _problem(info, parts)
        if problem or not _is_notebook(parts[-1]):
            entries.append(Entry(tuple(part for part in parts if part not in ("", "..")), None, problem))
            continue
        path = _free(folder.joinpath(*parts))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            total += _write(opened, info, path)
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            entries.append(Entry(parts, None, f"{parts[-1]} can't be unpacked: {_short(error)}."))
            continue
        if total > MAX_TOTAL_BYTES:
            raise ValueError(f"the archive unpacks to more than {MAX_TOTAL_BYTES / 1e9:.0f} GB")
        entries.append(Entry(parts, path))
    return sorted(entries, key=lambda entry: entry.parts)


def _problem(info, parts):
    """Why an entry is not unpacked, as a sentence; "" where nothing speaks against it."""
    name = parts[-1]
    if any(part in ("", "..") or "\0" in part or part.endswith(":") for part in parts):
        return f"The name {'/'.join(parts)!r} leads out of its folder; the file was not unpacked."
    if stat.S_ISLNK(info.external_attr >> 16):
        return f"{name} is a symbolic link, which is not followed. Hand in the file."
    if name.lower().endswith((".zip", ".tar", ".gz", ".7z", ".rar")):
        return f"{name} is an archive inside the archive, which is not opened. Hand in the notebook itself."
    if info.flag_bits & _ENCRYPTED_FLAG:
        return f"{name} is encrypted. Hand in the file without a password."
    if info.file_size > MAX_BYTES and _is_notebook(name):
        size, most = info.file_size / 1e6, MAX_BYTES / 1e6
        return f"The file has {size:.0f} MB; at most {most:.0f} MB are read. Clear all outputs and save."
    if info.file_size > max(1_000_000, MAX_RATIO * info.compress_size) and _is_notebook(name):
        return f"{name} unpacks to more than {MAX_RATIO} times its size, as no real notebook does; it was not unpacked."
    return ""


def _free(path):
    """`path`, or beside it where an entry of the same name came before."""
    candidate, number = path, 1
    while os.path.lexists(candidate):
        candidate, number = path.with_name(f"{path.stem} ({number}){path.suffix}"), number + 1
    return candidate


def _write(opened, info, path):
    """Write an entry to `path` with its time, and return its size; what it says about its size is not believed."""
    with opened.open(info) as source, path.open("xb") as target:
        content = source.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise OSError("it is larger than it says")
        target.write(content)
    try:
        changed = time.mktime((*info.date_time, 0, 0, -1))
    except (ValueError, OverflowError):  # such as month 0
        changed = 0.0
    os.utime(path, (changed, changed))
    return len(content)


def _short(error):
    return str(getattr(error, "strerror", None) or error)[:200]
