//! Writes the planes of every `NAME.jpg` in a folder beside it, with the numbers that describe them: the fixtures under
//! tests/map-protocol/planes. `NAME.json` must hold `target` and `fit`; make.py beside the decoder's images writes both.

use std::error::Error;
use std::fs;
use std::path::Path;

use gpulane_decode::{Decoder, Finish, Kind, Limits, Place};
use serde_json::{Value, json};

/// Room for one item.
struct Buffer(Vec<u8>);

impl Place for Buffer {
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
        self.0 = vec![0; usize::try_from(bytes).ok()?];
        Some(&mut self.0)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("give a folder")?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jpg") {
            write_planes(&path)?;
        }
    }
    Ok(())
}

fn write_planes(path: &Path) -> Result<(), Box<dyn Error>> {
    let described = path.with_extension("json");
    let mut json: Value = serde_json::from_slice(&fs::read(&described)?)?;
    let decode =
        format!("rgb:{}x{}:{}", json["target"][0], json["target"][1], json["fit"].as_str().ok_or("no fit")?);
    let mut place = Buffer(Vec::new());
    let mut decoder = Decoder::new(decode.parse()?, Limits::default());
    let form = decoder.decode(&fs::read(path)?, Finish::Planes, &mut place)?;
    if form.kind != Kind::Planes {
        return Err(format!("{} gave no planes", path.display()).into());
    }
    let [height, width, chroma_height, chroma_width] = form.dims;
    json["height"] = json!(height);
    json["width"] = json!(width);
    json["chroma_height"] = json!(chroma_height);
    json["chroma_width"] = json!(chroma_width);
    json["chroma"] = json!(form.chroma);
    json["orientation"] = json!(form.orientation);
    fs::write(path.with_extension("planes"), &place.0)?;
    fs::write(&described, format!("{json}\n"))?;
    Ok(())
}
