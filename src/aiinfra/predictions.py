"""Predictions made before anything is computed, kept in a small log, and how well they were calibrated.

The log is `predictions.jsonl` in the folder of the notebook, one line a prediction or a truth; the environment
variable AIINFRA_PREDICTIONS names another place. Lines are only ever appended: a prediction changed after its truth
was shown does not count.
"""

import datetime
import json
import os
import shutil
from pathlib import Path

from aiinfra.units import number

CONFIDENCE = 0.9  # the share of ranges that should hold the truth


def log_path():
    """Where the log is."""
    return Path(os.environ.get("AIINFRA_PREDICTIONS", "predictions.jsonl"))


def keep_in(folder):
    """Keep the log in `folder` from now on, such as a mounted drive; what either place holds already is kept.

    On Colab, after `drive.mount("/content/drive")`: keep_in("/content/drive/MyDrive").
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"folder must be an existing folder, got {str(folder)!r}")
    here, there = log_path(), folder / "predictions.jsonl"
    if here.exists() and here.resolve() != there.resolve():
        known = set(there.read_text(encoding="utf-8").splitlines()) if there.exists() else set()
        new = [line for line in here.read_text(encoding="utf-8").splitlines() if line not in known]
        merged = (there.read_text(encoding="utf-8") if there.exists() else "") + "".join(line + "\n" for line in new)
        _replace(there, merged)
    os.environ["AIINFRA_PREDICTIONS"] = str(there)


def _replace(path, text):
    temporary = path.with_suffix(".part")
    temporary.write_text(text, encoding="utf-8")
    shutil.move(temporary, path)


def _entries():
    """The log's entries; a line that is no entry, as a crash may leave one, is passed over."""
    if not log_path().exists():
        return []
    entries = []
    for line in log_path().read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(entry, dict) and "key" in entry:
            entries.append(entry)
    return entries


def _append(**entry):
    entry["time"] = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with log_path().open("a", encoding="utf-8") as log:
        log.write(json.dumps(entry) + "\n")


def predict(key, question, low=None, high=None):
    """Commit to a range that holds the answer to `question` with 90 % confidence.

    Parameters
    ----------
    key : str           names the prediction, the same in `reveal`
    question : str      what is predicted, with its unit
    low, high : float   ends of the range; left out or `...`, nothing is predicted and nothing raises
    """
    if any(end is None or end is Ellipsis for end in (low, high)):
        print(f"… {question}\n  No prediction yet: replace ... by low=, high= and run this cell before you go on.")
        return
    low, high = number("low", low, minimum=float("-inf")), number("high", high, minimum=float("-inf"))
    if low > high:
        raise ValueError(f"low must not be above high, got low={low:g}, high={high:g}")
    if (key in _truths()) and key not in _predictions():
        print("  The answer was already shown here, so this prediction does not count.")
    _append(key=key, question=question, low=low, high=high)
    print(f"Noted: {question}: between {low:g} and {high:g}.")


def reveal(key, truth):
    """Show the `truth` of prediction `key` beside what was predicted."""
    truth = number("truth", truth, minimum=float("-inf"))
    mine = _predictions().get(key)
    if key not in _truths():
        _append(key=key, truth=truth)
    if mine is None:
        print(f"It is {truth:.4g}. You made no prediction: the guess before the answer is what trains judgement.")
        return
    held = mine["low"] <= truth <= mine["high"]
    where = "inside" if held else ("above" if truth > mine["high"] else "below")
    print(f"It is {truth:.4g}: {where} your range of {mine['low']:g} to {mine['high']:g}.")


def _truths():
    truths: dict[str, float] = {}
    for entry in _entries():
        if "truth" in entry:
            truths.setdefault(entry["key"], entry["truth"])
    return truths


def _predictions():
    """The last prediction of each key that was made before its truth was shown."""
    mine: dict[str, dict] = {}
    shown = set()
    for entry in _entries():
        if "truth" in entry:
            shown.add(entry["key"])
        elif "low" in entry and entry["key"] not in shown:
            mine[entry["key"]] = entry
    return mine


def calibration():
    """(ranges that held the truth, ranges whose truth is known)."""
    mine, truths = _predictions(), _truths()
    judged = [key for key in mine if key in truths]
    return sum(mine[key]["low"] <= truths[key] <= mine[key]["high"] for key in judged), len(judged)


def show_calibration():
    """Print how many of the ranges held so far, and what a calibrated predictor would expect."""
    held, judged = calibration()
    if not judged:
        print("No prediction has been judged yet.")
        return
    verdict = "too narrow so far" if held < CONFIDENCE * judged - 1 else "as it should be so far"
    print(f"{held} of your {judged} ranges held the truth; at 90 % confidence about {CONFIDENCE * judged:.1f} should.")
    if judged >= 5:
        print(f"Your ranges are {verdict}.")
