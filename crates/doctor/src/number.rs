//! Numbers with their words, as people say them.

use std::fmt::Display;

/// `1 process`, `3 processes`.
pub(crate) fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, one: &str, many: &str) -> String {
    let word = if count == N::from(1) { one } else { many };
    format!("{count} {word}")
}

/// `1 process`, `3 processes`.
pub(crate) fn processes<N: Copy + Display + PartialEq + From<u8>>(count: N) -> String {
    counted(count, "process", "processes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([processes(1_u32), processes(5_u32)], ["1 process", "5 processes"]);
        assert_eq!([counted(0_usize, "job", "jobs"), counted(1_usize, "job", "jobs")], ["0 jobs", "1 job"]);
    }
}
