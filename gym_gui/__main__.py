"""`python -m gym_gui` opens the workbench."""

from gym_gui.app import main

if __name__ == "__main__":
    raise SystemExit(main())
