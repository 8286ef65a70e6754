//! Why a TIFF is refused, in the words a person reads.

use crate::Rejection;

/// Why a strip or tile gives no pixels, or not all.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its data is damaged, which is no reason to leave out the others.
    Damaged(String),
    /// Of a kind that is not decoded, or there is no memory for it: nothing is made of the page.
    Refused(Rejection),
}

impl From<Rejection> for Fault {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Broken(what) => Self::Damaged(what),
            other @ Rejection::NoRoom { .. } => Self::Refused(other),
        }
    }
}

/// A file that cannot be right.
pub(super) fn broken(what: impl std::fmt::Display) -> Rejection {
    Rejection::broken(format!("broken TIFF: {what}"))
}

/// A file that ends, or whose data ends, before all is there.
pub(super) fn truncated() -> Rejection {
    Rejection::broken("truncated: the TIFF's data ends too early")
}

/// A file that may be right, but is of a kind that is not decoded.
pub(super) fn unknown(what: impl std::fmt::Display) -> Rejection {
    Rejection::broken(format!("a TIFF gpulane does not decode ({what}); give the model its own load(path)"))
}
