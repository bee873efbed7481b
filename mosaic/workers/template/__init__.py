"""The package that `mosaic worker new` copies; `my_worker` becomes the name that was typed."""
