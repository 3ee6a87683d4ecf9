"""Whose a notebook is and which version counts, in folders and in zip files of Canvas, Moodle and of attackers."""

import datetime
import os
import stat
import zipfile

import pytest

from aiinfra.grading.intake import archives
from aiinfra.grading.intake.submissions import find

NOTEBOOK = b'{"nbformat": 4, "cells": []}'


def zipped(path, names, date_time=(2026, 11, 20, 12, 0, 0)):
    """A zip file at `path` of (name, content) pairs or names; a ZipInfo in place of a name is taken as it is."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in names:
            name, content = entry if isinstance(entry, tuple) else (entry, NOTEBOOK)
            info = name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name, date_time)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return path


def found(tmp_path, names, **how):
    """The submissions of a zip file with `names`, by student."""
    source = zipped(tmp_path / "submissions.zip", names)
    return {each.student: each for each in find(source, unpack_to=tmp_path / "unpacked", **how)}


def told(submissions):
    return {student: (each.path and each.path.name, each.late, each.problem) for student, each in submissions.items()}


def test_names_of_canvas(tmp_path):
    submissions = found(
        tmp_path,
        [
            "doejane_12345_67890_lab.ipynb",
            "roebob_LATE_12346_67891_lab-1.ipynb",
            "lizoë_12347_67892_my_lab_2_3.ipynb",
            "vanderbergjan_12348_67893_lab.py",
            "anon_aB3dE_67894_lab.ipynb",
            "LATE_anon_xY9zW_67895_12_lab.ipynb",
        ],
    )
    assert told(submissions) == {
        "anon_aB3dE": ("anon_aB3dE_67894_lab.ipynb", False, ""),
        "anon_xY9zW": ("LATE_anon_xY9zW_67895_12_lab.ipynb", True, ""),
        "doejane_12345": ("doejane_12345_67890_lab.ipynb", False, ""),
        "lizoë_12347": ("lizoë_12347_67892_my_lab_2_3.ipynb", False, ""),
        "roebob_12346": ("roebob_LATE_12346_67891_lab-1.ipynb", True, ""),
        "vanderbergjan_12348": (
            None,
            False,
            "There is no notebook: what was handed in is lab.py. Hand in a file .ipynb.",
        ),
    }
    assert (submissions["doejane_12345"].number, submissions["doejane_12345"].name) == ("12345", "doejane")


def test_names_of_moodle_with_a_folder_for_each_and_without(tmp_path):
    names = [
        "Jane Doe_555_assignsubmission_file_/lab.ipynb",
        "Jane Doe_555_assignsubmission_onlinetext_/onlinetext.html",
    ]
    names += ["Bob O'Neil_556_assignsubmission_file_lab.ipynb", "Team 3_assignsubmission_file_/deeper/lab.ipynb"]
    names += ["Zoë 李_557_assignsubmission_file_/lab.zip"]
    submissions = found(tmp_path, names)
    says = "lab.zip is an archive inside the archive, which is not opened. Hand in the notebook itself."
    assert told(submissions) == {
        "Bob O'Neil_556": ("Bob O'Neil_556_assignsubmission_file_lab.ipynb", False, ""),
        "Jane Doe_555": ("lab.ipynb", False, ""),
        "Team 3": ("lab.ipynb", False, ""),
        "Zoë 李_557": (None, False, says),
    }


def test_the_newest_in_time_counts_by_canvas(tmp_path):
    names = ["doejane_1_70_lab.ipynb", "doejane_1_90_lab-1.ipynb", "doejane_LATE_1_95_lab-2.ipynb"]
    names += ["roebob_LATE_2_71_lab.ipynb", "roebob_LATE_2_72_lab-1.ipynb"]
    submissions = found(tmp_path, names)
    assert told(submissions) == {
        "doejane_1": ("doejane_1_90_lab-1.ipynb", False, ""),
        "roebob_2": ("roebob_LATE_2_72_lab-1.ipynb", True, ""),
    }
    assert submissions["doejane_1"].notes == (
        "doejane_1_70_lab.ipynb was not graded: doejane_1_90_lab-1.ipynb is newer.",
        "doejane_LATE_1_95_lab-2.ipynb was not graded: it is late, and doejane_1_90_lab-1.ipynb came in time.",
    )
    assert submissions["roebob_2"].notes == (
        "Handed in late.",
        "roebob_LATE_2_71_lab.ipynb was not graded: roebob_LATE_2_72_lab-1.ipynb is newer.",
    )


def test_the_newest_before_the_deadline_counts_by_time(tmp_path):
    deadline = datetime.datetime(2026, 11, 20, 23, 59, tzinfo=datetime.UTC)
    for name, hours in (("ada/first.ipynb", -9), ("ada/second.ipynb", -1), ("ada/third.ipynb", 2), ("bob.ipynb", 2)):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(NOTEBOOK)
        seconds = deadline.timestamp() + 3600 * hours
        os.utime(path, (seconds, seconds))
    ada, bob = find(tmp_path / "in", deadline=deadline)
    assert (ada.path.name, ada.late, bob.path.name, bob.late) == ("second.ipynb", False, "bob.ipynb", True)
    assert [each.late for each in find(tmp_path / "in")] == [False, False]


def test_times_in_a_zip_count_as_local_time(tmp_path):
    here = datetime.datetime(2026, 11, 20, 12, 0, 0).astimezone()
    second = datetime.timedelta(seconds=2)
    assert [each.late for each in found(tmp_path, ["ada.ipynb"], deadline=here - second).values()] == [True]
    assert [each.late for each in found(tmp_path, ["ada.ipynb"], deadline=here + second).values()] == [False]


def test_a_deadline_says_nothing_about_the_times_of_a_download(tmp_path):
    before = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    names = ["Jane Doe_555_assignsubmission_file_/lab.ipynb", "doejane_12345_67890_lab.ipynb"]
    assert [each.late for each in found(tmp_path, names, deadline=before).values()] == [False, False]


def test_a_zipped_folder_of_its_own_name_is_looked_into(tmp_path):
    names = ["submissions/ada.ipynb", "submissions/bob/lab.ipynb", "__MACOSX/submissions/._ada.ipynb"]
    assert list(found(tmp_path, names)) == ["ada", "bob"]
    assert list(found(tmp_path, ["elsewhere/lab.ipynb"])) == ["elsewhere"]


def test_names_without_the_mark_of_utf8(tmp_path):
    """As macOS writes them: UTF-8 with accents apart, and nothing that says so."""
    apart = "zoe\u0308.ipynb"
    path = zipped(tmp_path / "a.zip", ["zXXXX.ipynb"])
    path.write_bytes(path.read_bytes().replace(b"zXXXX.ipynb", apart.encode()))
    assert [each.student for each in find(path, unpack_to=tmp_path / "unpacked")] == ["zo\u00eb"]


def link(name, target):
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, target


@pytest.mark.parametrize(
    "name", ["../evil.ipynb", "ada/../../evil.ipynb", "/etc/evil.ipynb", "..\\evil.ipynb", "C:\\evil.ipynb"]
)
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    source = zipped(tmp_path / "a.zip", [name, "good.ipynb"])
    submissions = {each.student: each for each in find(source, unpack_to=tmp_path / "deep" / "er" / "unpacked")}
    assert submissions.pop("good").path is not None
    assert all("leads out of its folder" in each.problem for each in submissions.values())
    assert sorted(path.name for path in tmp_path.rglob("*.ipynb")) == ["good.ipynb"]


def test_links_and_locked_and_broken_entries_cost_their_own_student_alone(tmp_path):
    source = zipped(
        tmp_path / "a.zip", [link("ada.ipynb", "/etc/passwd"), "bob.ipynb", ("cyd.ipynb", b"x" * 999), "dan.ipynb"]
    )
    content = bytearray(source.read_bytes())
    content[content.index(b"cyd.ipynb") + len("cyd.ipynb") + 2] ^= 0xFF  # inside its packed content
    place = content.rindex(b"dan.ipynb") - 46  # its entry of the directory, whose flags say encrypted
    content[place + 8] |= 1
    source.write_bytes(content)
    submissions = {each.student: each for each in find(source, unpack_to=tmp_path / "unpacked")}
    assert submissions["ada"].problem == "ada.ipynb is a symbolic link, which is not followed. Hand in the file."
    assert submissions["bob"].path.read_bytes() == NOTEBOOK
    assert "cyd.ipynb can't be unpacked" in submissions["cyd"].problem
    assert "dan.ipynb is encrypted" in submissions["dan"].problem
    assert [path.name for path in (tmp_path / "unpacked").iterdir()] == ["bob.ipynb"]


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    bomb, large = b"0" * 5_000_000, os.urandom(archives.MAX_BYTES + 1)
    submissions = found(tmp_path, [("ada.ipynb", bomb), ("bob.ipynb", large), "cyd.ipynb"])
    assert "250 times its size" in submissions["ada"].problem
    assert "at most 20 MB are read" in submissions["bob"].problem
    assert [path.name for path in (tmp_path / "unpacked").iterdir()] == ["cyd.ipynb"]


def test_a_size_that_lies_is_not_believed(tmp_path):
    source = zipped(tmp_path / "a.zip", [("ada.ipynb", b"x" * 999_999)])
    content = source.read_bytes()
    source.write_bytes(content.replace((999_999).to_bytes(4, "little"), (9).to_bytes(4, "little")))
    (ada,) = find(source, unpack_to=tmp_path / "unpacked")
    assert "can't be unpacked" in ada.problem
    assert list((tmp_path / "unpacked").iterdir()) == []


def test_an_archive_that_is_wrong_as_a_whole_is_refused(tmp_path, monkeypatch):
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 and nothing")
    with pytest.raises(ValueError, match="not a zip file that can be read"):
        find(tmp_path / "broken.zip", unpack_to=tmp_path / "unpacked")
    monkeypatch.setattr(archives, "MAX_ENTRIES", 1)
    with pytest.raises(ValueError, match="has 2 files; at most 1"):
        found(tmp_path, ["a.ipynb", "b.ipynb"])
    monkeypatch.undo()
    monkeypatch.setattr(archives, "MAX_TOTAL_BYTES", 10)
    with pytest.raises(ValueError, match="GB are unpacked"):
        found(tmp_path, ["a.ipynb", "b.ipynb"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.zip", "submissions.zip"]


def test_two_entries_of_one_name_are_two_versions(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        submissions = found(tmp_path, ["ada/lab.ipynb", "ada/lab.ipynb"])
    assert (submissions["ada"].path.name, len(submissions["ada"].others)) == ("lab (1).ipynb", 1)


def test_stray_files_and_a_student_without_a_notebook(tmp_path):
    for name in ("roster.csv", "download.zip", "ada/lab.py", "bob/lab.zip", "cyd/LAB.IPYNB"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(NOTEBOOK)
    submissions = {each.student: each for each in find(tmp_path)}
    assert told(submissions) == {
        "ada": (None, False, "There is no notebook: what was handed in is lab.py. Hand in a file .ipynb."),
        "bob": (None, False, "lab.zip is an archive, which is not opened. Hand in the notebook itself."),
        "cyd": ("LAB.IPYNB", False, ""),
    }
