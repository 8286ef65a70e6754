//! What a map works on.
