//! Looks at a machine, a process or a run and finds what is wrong. Each finding says what was seen, why it matters and
//! what to type next. Prints nothing, and changes nothing except through [`fix`].

mod fields;
mod finding;
mod fix;
mod leftovers;
mod machine;
mod number;
mod patience;
mod proc;
mod process;
mod run;
mod which_tool;

pub use finding::{Finding, Severity};
pub use fix::{Ended, fix};
pub use machine::{MachineOptions, machine};
pub use process::{ProcessLook, is_yours_to_end, process};
pub use run::run;
pub use which_tool::which_tool;
