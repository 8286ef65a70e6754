//! What a user is called, as far as this machine's own list knows.

/// The name of the user with this id, or the id itself.
pub fn user_name(uid: u32) -> String {
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        (id.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("uid {uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_root_and_nobody_knows_the_rest() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(3_999_999_999), "uid 3999999999");
    }
}
