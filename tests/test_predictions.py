"""Predictions: the log survives, and only what was said before the answer counts."""

import pytest

from aiinfra import predictions


@pytest.fixture(autouse=True)
def log(tmp_path, monkeypatch):
    monkeypatch.setenv("AIINFRA_PREDICTIONS", str(tmp_path / "predictions.jsonl"))
    return tmp_path / "predictions.jsonl"


def test_nothing_is_noted_before_the_learner_predicts(log, capsys):
    predictions.predict("a", "How many?", ...)
    predictions.predict("a", "How many?")
    assert "No prediction yet" in capsys.readouterr().out
    assert not log.exists()


def test_a_range_that_holds_the_truth_and_one_that_does_not(capsys):
    predictions.predict("a", "How many?", low=1, high=3)
    predictions.predict("b", "How many?", low=1, high=3)
    predictions.reveal("a", 2)
    predictions.reveal("b", 4)
    assert "It is 2: inside your range of 1 to 3." in (out := capsys.readouterr().out)
    assert "It is 4: above your range of 1 to 3." in out
    assert predictions.calibration() == (1, 2)


def test_a_prediction_may_change_until_the_answer_is_shown_and_not_after():
    predictions.predict("a", "How many?", low=8, high=9)
    predictions.predict("a", "How many?", low=1, high=3)
    predictions.reveal("a", 8.5)
    predictions.predict("a", "How many?", low=8, high=9)
    assert predictions.calibration() == (0, 1)


def test_an_answer_seen_before_any_prediction_is_not_judged(capsys):
    predictions.reveal("a", 2)
    predictions.predict("a", "How many?", low=1, high=3)
    assert predictions.calibration() == (0, 0)
    assert "does not count" in capsys.readouterr().out


def test_a_broken_line_is_passed_over(log):
    log.write_text('{"key": "a", "low"\n[]\n', encoding="utf-8")
    predictions.predict("a", "How many?", low=1, high=3)
    predictions.reveal("a", 2)
    assert predictions.calibration() == (1, 1)


def test_the_log_moves_to_a_drive_and_back_without_loss(log, tmp_path, monkeypatch):
    drive = tmp_path / "drive"
    drive.mkdir()
    predictions.predict("a", "How many?", low=1, high=3)
    predictions.keep_in(drive)
    predictions.reveal("a", 2)
    monkeypatch.setenv("AIINFRA_PREDICTIONS", str(tmp_path / "a fresh machine.jsonl"))
    predictions.predict("b", "How many?", low=1, high=3)
    predictions.keep_in(drive)
    predictions.keep_in(drive)
    predictions.reveal("b", 5)
    assert predictions.calibration() == (1, 2)


@pytest.mark.parametrize(("low", "high", "says"), [(3, 1, "low must not be above high"), ("1", 2, "low must be")])
def test_bad_ranges_are_refused(low, high, says):
    with pytest.raises(ValueError, match=says):
        predictions.predict("a", "How many?", low=low, high=high)
    with pytest.raises(ValueError, match="folder must be an existing folder"):
        predictions.keep_in("/nowhere/at/all")
