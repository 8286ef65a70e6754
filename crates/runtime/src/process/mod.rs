//! Starting, finding, signalling and reaping processes: the only room that may, and the only one with `unsafe`.
//!
//! A job is started by [`spawn::Spawner`] on the vfork path. Everything that may descend from it is found by
//! [`tree`]: session, parentage and adoption by the subreaper, then the environment tag.

pub(crate) mod descriptors;
pub(crate) mod image;
pub(crate) mod inherited;
pub(crate) mod proc_mount;
pub(crate) mod signals;
pub(crate) mod spawn;
pub(crate) mod stack;
pub(crate) mod subreaper;
pub(crate) mod tree;
