"""Pictures made by other programs, and damaged ones, through `gpulane map`, compared with what Pillow and tifffile make of them.

`./x pictures` runs all of it, `./x test` a seeded sample. See README.md beside this file.
"""
