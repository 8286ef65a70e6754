//! Bytes of a file to pixels, in place. Knows nothing of rings and items.
