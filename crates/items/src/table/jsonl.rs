//! JSON lines: an object a line, of which one key counts.

use std::fmt;
use std::fs::File;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Each, no_column};
use crate::lines::Lines;
use crate::problem::Stop;

/// How many lines are looked at to learn the keys.
const SAMPLE: usize = 100;

/// What a line has where the key leads.
enum Leaf {
    Missing,
    Null,
    Text(String),
    /// A list, an object: nothing that names an item.
    Other,
}

/// Finds a key, or a key of a key, without building anything of the rest.
#[derive(Clone, Copy)]
struct Find<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = Leaf;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Leaf, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Leaf;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Leaf, A::Error> {
        let mut found = if self.0.is_empty() { Leaf::Other } else { Leaf::Missing };
        while let Some(key) = map.next_key::<std::borrow::Cow<str>>()? {
            let rest = self.0.strip_prefix(&*key).filter(|_| !self.0.is_empty());
            match rest.and_then(|rest| if rest.is_empty() { Some("") } else { rest.strip_prefix('.') }) {
                Some(rest) => match map.next_value_seed(Find(rest))? {
                    Leaf::Missing => {}
                    leaf => found = leaf,
                },
                None => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Leaf, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.leaf(Leaf::Other))
    }

    fn visit_str<E>(self, text: &str) -> Result<Leaf, E> {
        Ok(self.leaf(Leaf::Text(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Leaf, E> {
        Ok(self.leaf(Leaf::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Leaf, E> {
        Ok(self.leaf(Leaf::Text(value.to_string())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Leaf, E> {
        Ok(self.leaf(Leaf::Text(value.to_string())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Leaf, E> {
        Ok(self.leaf(Leaf::Text(value.to_string())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Leaf, E> {
        Ok(self.leaf(Leaf::Text(value.to_string())))
    }
}

impl Find<'_> {
    /// A value that has no keys: what was looked for, or not it.
    fn leaf(self, leaf: Leaf) -> Leaf {
        if self.0.is_empty() { leaf } else { Leaf::Missing }
    }
}

fn find(line: &[u8], column: &str) -> Result<Leaf, serde_json::Error> {
    let mut source = serde_json::Deserializer::from_slice(line);
    let leaf = Find(column).deserialize(&mut source)?;
    source.end()?;
    Ok(leaf)
}

/// The keys of the first lines' objects; nested ones are for the person to know.
pub(super) fn columns(path: &Path) -> Result<Vec<String>, Stop> {
    let mut names: Vec<String> = Vec::new();
    let mut lines = Lines::new(File::open(path).map_err(Stop::io("open", path))?);
    for _ in 0..SAMPLE {
        let Some((_, line)) = lines.next().map_err(Stop::io("read", path))? else { break };
        if let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(line) {
            names.extend(object.keys().filter(|key| !names.contains(key)).cloned().collect::<Vec<_>>());
        }
    }
    Ok(names)
}

/// That one of the first lines has the key; a later one may be the first to have it only if these do.
fn check(path: &Path, column: &str) -> Result<(), Stop> {
    let mut lines = Lines::new(File::open(path).map_err(Stop::io("open", path))?);
    let mut objects = false;
    for _ in 0..SAMPLE {
        let Some((_, line)) = lines.next().map_err(Stop::io("read", path))? else { break };
        match find(line, column) {
            Ok(Leaf::Missing) => objects = true,
            Ok(_) => return Ok(()),
            Err(_) => {}
        }
    }
    if objects { Err(no_column(path, column, &columns(path)?)) } else { Ok(()) }
}

pub(super) fn read(path: &Path, column: &str, each: &mut Each) -> Result<(), Stop> {
    check(path, column)?;
    let mut lines = Lines::new(File::open(path).map_err(Stop::io("open", path))?);
    while let Some((number, line)) = lines.next().map_err(Stop::io("read", path))? {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match find(line, column) {
            Ok(Leaf::Text(text)) if text.is_empty() => {
                each(number, Err(format!("`{column}` is empty in line {number}")))?;
            }
            Ok(Leaf::Text(text)) => each(number, Ok(text.as_bytes()))?,
            Ok(Leaf::Null) => each(number, Err(format!("`{column}` is null in line {number}")))?,
            Ok(Leaf::Missing) => each(number, Err(format!("line {number} has no `{column}`")))?,
            Ok(Leaf::Other) => each(number, Err(format!("`{column}` is no text in line {number}")))?,
            Err(error) => each(number, Err(format!("line {number} is no JSON: {error}")))?,
        }
    }
    Ok(())
}
