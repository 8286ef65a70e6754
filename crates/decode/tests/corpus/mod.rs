//! Good and damaged files of every format the decoder knows, to be decoded one after the other.

#![allow(dead_code)] // each test takes what it needs

use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

use crate::place::{image, images};

/// A file and what it is called when a test fails.
pub(crate) type Named = (String, Vec<u8>);

/// Every image beside these tests, good and bad.
pub(crate) fn stored() -> Vec<Named> {
    let known = ["jpg", "png", "webp", "gif", "bmp", "tif"];
    let mut names: Vec<String> = std::fs::read_dir(images())
        .expect("images")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.rsplit_once('.').is_some_and(|(_, end)| known.contains(&end)))
        .collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), image(&name))).collect()
}

/// Every image with a colour profile, good and bad.
pub(crate) fn profiled() -> Vec<Named> {
    let folder = images().with_file_name("options");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("options")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.contains("icc") && !name.contains(".raw."))
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|name| (name.clone(), std::fs::read(folder.join(&name)).expect("readable")))
        .collect()
}

/// JPEGs that leave something behind in a decoder that keeps anything: tables, markers, scans, factors.
pub(crate) fn jpegs() -> Vec<Named> {
    let whole = [
        ("420", made(Subsamp::Sub2x2, |_| {})),
        ("444", made(Subsamp::None, |_| {})),
        ("422 optimised", made(Subsamp::Sub2x1, |jpeg| jpeg.set_optimize(true).expect("optimised"))),
        ("gray", made(Subsamp::Gray, |_| {})),
        ("progressive", made(Subsamp::Sub2x2, |jpeg| jpeg.set_progressive(true).expect("progressive"))),
        ("arithmetic", made(Subsamp::Sub2x2, |jpeg| jpeg.set_arithmetic(true).expect("arithmetic"))),
        ("quality 30", made(Subsamp::Sub2x2, |jpeg| jpeg.set_quality(30).expect("quality"))),
    ];
    let mut files: Vec<Named> = whole.iter().map(|(name, file)| ((*name).to_owned(), file.clone())).collect();
    for (name, file) in &whole {
        for (what, marker) in [("DQT", 0xdb), ("DHT", 0xc4), ("SOF", 0xc0), ("SOS", 0xda)] {
            files.push((format!("{name} without {what}"), without(file, marker)));
        }
    }
    files.extend(damaged("420", &whole[0].1));
    files.extend(damaged("progressive", &whole[4].1));
    for name in ["jpeg-restarts.jpg", "jpeg-cmyk.jpg", "jpeg-ycck.jpg", "jpeg-junk-in-header.jpg"] {
        files.push((name.to_owned(), image(name)));
        files.push((format!("half of {name}"), image(name)[..image(name).len() / 2].to_vec()));
    }
    files
}

/// Copies of a JPEG with exactly one byte changed, in each kind of segment that a decoder remembers.
fn damaged(name: &str, file: &[u8]) -> Vec<Named> {
    let mut files = Vec::new();
    for (marker, at, length) in segments(file) {
        let places: &[usize] = match marker {
            0xc4 => &[0, 1, 8, 17],               // which table, its counts, a symbol
            0xdb => &[0, 1],                      // which table, a factor
            0xc0 | 0xc2 => &[0, 1, 5, 7, 10, 13], // depth, height, components, sampling of each
            0xda => &[0, 2, 4, 7],                // components, tables, spectral selection
            _ => continue,
        };
        for (place, to) in places.iter().flat_map(|place| [(*place, 0x00), (*place, 0xff)]) {
            let mut copy = file.to_vec();
            if place < length && copy[at + place] != to {
                copy[at + place] = to;
                files.push((format!("{name}: {marker:02x}+{place} is {to:02x}"), copy));
            }
        }
    }
    files
}

/// The segments before the image data: marker, where its body begins, how long that is.
fn segments(file: &[u8]) -> Vec<(u8, usize, usize)> {
    let (mut found, mut at) = (Vec::new(), 2);
    loop {
        let (marker, length) = (file[at + 1], usize::from(u16::from_be_bytes([file[at + 2], file[at + 3]])));
        found.push((marker, at + 4, length - 2));
        if marker == 0xda {
            return found;
        }
        at += 2 + length;
    }
}

/// A JPEG without its segments of one kind. Frames of all kinds count as one.
fn without(file: &[u8], marker: u8) -> Vec<u8> {
    let mut kept = file.to_vec();
    for (found, at, length) in segments(file).into_iter().rev() {
        if found == marker || (marker == 0xc0 && matches!(found, 0xc1 | 0xc2 | 0xc9)) {
            kept.drain(at - 4..at + length);
        }
    }
    kept
}

/// A small picture of slopes and edges, compressed as asked.
fn made(subsamp: Subsamp, set: impl FnOnce(&mut Compressor)) -> Vec<u8> {
    let (width, height) = (43, 37);
    let pixel = |at: usize| {
        let (x, y) = (at / 3 % width, at / 3 / width);
        u8::try_from(if (x / 7 + y / 5) % 3 == at % 3 { 250 } else { (x * 3 + y * 2) % 200 }).expect("a byte")
    };
    let pixels: Vec<u8> = (0..width * height * 3).map(pixel).collect();
    let mut compressor = Compressor::new().expect("a compressor");
    compressor.set_quality(85).expect("quality");
    compressor.set_subsamp(subsamp).expect("subsampling");
    set(&mut compressor);
    let image =
        Image { pixels: pixels.as_slice(), width, pitch: width * 3, height, format: PixelFormat::RGB };
    compressor.compress_to_vec(image).expect("compresses")
}

/// Files of all formats with a byte changed, cut short or ended with what another one ends with.
pub(crate) fn broken_copies(files: &[Named]) -> Vec<Named> {
    let mut broken = Vec::new();
    for (index, (name, file)) in files.iter().enumerate() {
        for part in [8, 3, 2] {
            broken.push((format!("{name}, cut to 1/{part}"), file[..file.len() / part].to_vec()));
        }
        for at in [9, 20, 27, 33, file.len() / 2, file.len() * 3 / 4] {
            let mut copy = file.clone();
            if let Some(byte) = copy.get_mut(at) {
                *byte ^= 0x55;
                broken.push((format!("{name}, byte {at} changed"), copy));
            }
        }
        let other = &files[(index + 7) % files.len()].1;
        let joined = [&file[..file.len() * 2 / 3], &other[other.len() * 2 / 3..]].concat();
        broken.push((format!("{name}, ended as another"), joined));
    }
    broken
}

/// Arrays, good and bad.
pub(crate) fn arrays() -> Vec<Named> {
    let array = |shape: &str, data: usize| {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        let length = u16::try_from(header.len()).expect("short").to_le_bytes();
        let data: Vec<u8> = (0..data).map(|at| u8::try_from(at % 251).expect("a byte")).collect();
        [b"\x93NUMPY\x01\0".as_slice(), &length, header.as_bytes(), &data].concat()
    };
    [("(3, 5)", 60), ("(7,)", 28), ("(3, 5)", 59), ("(4294967295, 4294967295, 9)", 4), ("(x)", 4), ("()", 4)]
        .into_iter()
        .map(|(shape, data)| (format!("array {shape} of {data} bytes"), array(shape, data)))
        .collect()
}

/// The cases of stills/make.py.
pub(crate) fn still_cases() -> Vec<serde_json::Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stills/cases.jsonl");
    let text = std::fs::read_to_string(path).expect("cases.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect("a case")).collect()
}

/// Bytes that stand in a case in hexadecimal.
pub(crate) fn bytes_of(value: &serde_json::Value) -> Vec<u8> {
    let digits = value.as_str().expect("hexadecimal").as_bytes();
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16).expect("a digit")).expect("small");
    digits.as_chunks::<2>().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

/// The files of these cases.
pub(crate) fn stills() -> Vec<Named> {
    let name = |case: &serde_json::Value| case["name"].as_str().expect("a name").to_owned();
    still_cases().iter().map(|case| (name(case), bytes_of(&case["file"]))).collect()
}
