//! A map's results on disk.
