//! A map's data path.
