"""`python -m mosaic`: the same as the command `mosaic`."""

from mosaic.cli.main import main

main()
