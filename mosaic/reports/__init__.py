"""Reports: what several runs show, frozen as one page that can be handed over.

`content` is a report as data, `gathering` reads it from the daemon, `figures` chooses what to draw
and `drawing` draws it. `page`, `printed` and `files` are its three forms: a page, a PDF, and a
folder with everything behind it.
"""
