"""Starts the command ``python -m research``."""

from __future__ import annotations

from slalom_xai.system.interrupts import leaving_at_once

if __name__ == "__main__":
    with leaving_at_once():
        from research.command import main
    main()
