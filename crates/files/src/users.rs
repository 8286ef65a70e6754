//! What users and groups are called, as far as this machine's own lists know.

/// The name of the user with this id, or the id itself.
pub fn user_name(uid: u32) -> String {
    name_in("/etc/passwd", uid).unwrap_or_else(|| format!("uid {uid}"))
}

/// The name of the group with this id, or the id itself.
pub fn group_name(gid: u32) -> String {
    name_in("/etc/group", gid).unwrap_or_else(|| format!("gid {gid}"))
}

fn name_in(list: &str, id: u32) -> Option<String> {
    let known = std::fs::read_to_string(list).ok()?;
    known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(id)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_root_and_nobody_knows_the_rest() {
        assert_eq!((user_name(0), group_name(0)), ("root".to_owned(), "root".to_owned()));
        assert_eq!(user_name(3_999_999_999), "uid 3999999999");
        assert_eq!(group_name(3_999_999_999), "gid 3999999999");
    }
}
