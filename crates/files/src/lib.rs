//! Files of a run, opened so that whoever else may write to the directory gains nothing: no link is followed, no pipe is waited for,
//! nothing but a regular file is read or written. Every room that opens a file in a run directory does it here.
//! Knows neither runs nor plans.

mod open;
mod users;

pub use open::{
    NotRegular, append, create, create_with, open, open_at, open_directory, open_directory_at,
    open_or_create, read, read_text, write,
};
pub use users::{group_name, user_name};
