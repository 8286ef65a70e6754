//! How much processor time results take on their way into parts: `write_rate [embeddings|ragged|lists|nested|scalars] [BATCHES]`, CPU seconds and rows per
//! CPU-second on one line. Two programs are compared by running them in turns.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss, clippy::print_stdout)] // a measurement, for whoever changes this crate

use std::fmt::Write as _;

use gpulane_model::Format;
use gpulane_parts::{Block, Writer};
use serde_json::{Value, json};

const ROWS: usize = 256;

fn column(name: &str, kind: &str, shape: &[usize], data: &[u8]) -> (Value, Vec<u8>) {
    (json!({"name": name, "type": kind, "shape": shape, "bytes": data.len()}), data.to_vec())
}

fn columns(what: &str) -> Vec<(Value, Vec<u8>)> {
    match what {
        "embeddings" => {
            let floats = (0..ROWS * 512_u16 as usize).map(|at| (at as f32).sin());
            vec![column("embedding", "f32", &[512], &floats.flat_map(f32::to_le_bytes).collect::<Vec<u8>>())]
        }
        "ragged" => {
            let list = |row: usize| (0..20 + row % 7).map(|at| (at as f64 + 0.1).sin()).collect::<Vec<_>>();
            let text = json!((0..ROWS).map(list).collect::<Vec<_>>()).to_string();
            vec![column("scores", "json", &[], text.as_bytes())]
        }
        "lists" => {
            let lengths: Vec<u32> = (0..u32::try_from(ROWS).unwrap()).map(|row| 20 + row % 7).collect();
            let floats = lengths
                .iter()
                .flat_map(|length| (0..*length).map(|at| (f64::from(at) + 0.1).sin().to_le_bytes()));
            let data: Vec<u8> =
                lengths.iter().flat_map(|length| length.to_le_bytes()).chain(floats.flatten()).collect();
            let (mut head, data) = column("scores", "f64", &[], &data);
            head["ragged"] = true.into();
            vec![(head, data)]
        }
        "nested" => {
            let boxes =
                |row: usize| json!({"label": format!("class {row}"), "box": [1, 2, 3, row], "score": 0.25});
            let text = json!((0..ROWS).map(|row| vec![boxes(row); 4]).collect::<Vec<_>>()).to_string();
            vec![column("boxes", "json", &[], text.as_bytes())]
        }
        _ => {
            let numbers = (0..ROWS).map(|at| at as f64 * 0.1);
            let labels = (0..ROWS).fold("[".to_owned(), |mut text, row| {
                let _ = write!(text, "{}\"class {row}\"", if row > 0 { "," } else { "" });
                text
            });
            let whole: Vec<u8> = (0..ROWS as u64).flat_map(u64::to_le_bytes).collect();
            vec![
                column("score", "f64", &[], &numbers.flat_map(f64::to_le_bytes).collect::<Vec<u8>>()),
                column("count", "i64", &[], &whole),
                column("label", "json", &[], format!("{labels}]").as_bytes()),
            ]
        }
    }
}

/// User and system time of this process, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_else(|| "embeddings".to_owned());
    let batches: usize = args.next().map_or(400, |text| text.parse().unwrap());
    let columns = columns(&what);
    let heads: Vec<Value> = columns.iter().map(|(head, _)| head.clone()).collect();
    let head = json!({"count": ROWS, "columns": heads});
    let body: Vec<u8> = columns.iter().flat_map(|(_, data)| data.clone()).collect();
    let dir = std::env::temp_dir().join(format!("gpulane-parts-rate-{}", std::process::id()));
    let (mut writer, _) = Writer::open(&dir, Format::Parquet, false).unwrap();
    let names: Vec<String> = (0..ROWS).map(|row| format!("photos/{row}.jpg")).collect();
    let before = cpu();
    for batch in 0..batches {
        let block = Block::parse(&head, body.clone()).unwrap();
        let items = names.iter().enumerate().map(|(row, name)| ((batch * ROWS + row) as u64, name.as_str()));
        let refused = writer.add(&items.collect::<Vec<_>>(), &block).unwrap();
        assert!(refused.is_empty(), "{refused:?}");
        if batch % 100 == 99 {
            writer.commit().unwrap();
        }
    }
    writer.commit().unwrap();
    let spent = cpu() - before;
    println!("{what}: {spent:.2} CPU s, {:.0} rows per CPU-second", (batches * ROWS) as f64 / spent);
    std::fs::remove_dir_all(&dir).unwrap();
}
