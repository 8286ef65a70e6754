"""Pictures made by other programs, and damaged ones, through `gpulane map`, compared with Pillow and tifffile.

`./x pictures` runs all of it, `./x test` a seeded sample. What was seen stands in docs/pictures.md.
"""
