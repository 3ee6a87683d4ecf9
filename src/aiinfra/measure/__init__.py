"""Measurements on this machine, with real PyTorch and real processes; the only code that imports torch."""
