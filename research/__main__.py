"""Starts the command ``python -m research``."""

from __future__ import annotations

from slalom_xai.system.interrupts import exit_on_interrupt

if __name__ == "__main__":
    with exit_on_interrupt():
        from research.command import main
    main()
