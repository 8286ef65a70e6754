//! The TIFFs of tests/pictures/tiffs.py that are kept beside these tests, and what must come of them.

#![allow(dead_code)] // each test takes what it needs

use std::io::Read;

use flate2::read::ZlibDecoder;
use serde_json::Value;

use crate::place::image;

/// A file, and what is told of it.
pub(crate) struct Packed {
    /// What it is made of.
    pub(crate) name: String,
    /// The file.
    pub(crate) encoded: Vec<u8>,
    /// How far a value may be from what is expected.
    pub(crate) most: u8,
    /// Each way to decode it, and what must come of that.
    pub(crate) expected: Vec<(String, Expected)>,
}

/// What must come of a file.
pub(crate) enum Expected {
    /// A reason with these words.
    Refused(String),
    /// Pixels.
    Pixels {
        shape: Vec<u64>,
        /// By the name of the type in Python.
        element: String,
        /// The sum of all bytes.
        crc: u32,
        /// The bytes themselves, where others are good enough.
        bytes: Option<Vec<u8>>,
    },
}

pub(crate) fn tiffs() -> Vec<Packed> {
    let mut pack = Vec::new();
    ZlibDecoder::new(image("tiffs.pack.z").as_slice()).read_to_end(&mut pack).expect("inflates");
    let told: Vec<Value> = serde_json::from_slice(&image("tiffs.json")).expect("tiffs.json");
    told.iter().map(|told| packed(told, &pack)).collect()
}

fn packed(told: &Value, pack: &[u8]) -> Packed {
    let part = |told: &Value| {
        let number = |key: &str| usize::try_from(told[key].as_u64().expect(key)).expect("small");
        pack[number("at")..][..number("bytes")].to_vec()
    };
    let expected = told["expected"].as_object().expect("expected").iter().map(|(decode, told)| {
        let what = if let Some(words) = told["refused"].as_str() {
            Expected::Refused(words.to_owned())
        } else {
            Expected::Pixels {
                shape: told["shape"].as_array().expect("shape").iter().filter_map(Value::as_u64).collect(),
                element: told["type"].as_str().expect("type").to_owned(),
                crc: u32::try_from(told["crc"].as_u64().expect("crc")).expect("32 bits"),
                bytes: told["at"].is_u64().then(|| part(told)),
            }
        };
        (decode.clone(), what)
    });
    Packed {
        name: told["name"].as_str().expect("name").to_owned(),
        encoded: part(told),
        most: u8::try_from(told["most"].as_u64().expect("most")).expect("small"),
        expected: expected.collect(),
    }
}
