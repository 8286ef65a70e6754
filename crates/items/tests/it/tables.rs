//! Tables whose column names the items.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use gpulane_items::{Item, Place};
use gpulane_model::Decode;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::place::{Scene, reason};

/// Names of good ones, reasons of bad ones.
fn told(items: &[Item]) -> Vec<&str> {
    items
        .iter()
        .map(|item| if let Place::File(_) = item.place { item.name.as_str() } else { reason(item) })
        .collect()
}

#[test]
fn a_csv_column_names_items_and_bad_rows_stay() {
    let scene = Scene::new(&[]);
    scene.write("t.csv", "id,path\n1,a.jpg\n2,\"b, c.jpg\"\n3,\n4\n5,\"two\nlines\"\n");
    let items = scene.items(&["t.csv:path"]);
    assert_eq!(
        told(&items),
        ["a.jpg", "b, c.jpg", "`path` is empty in row 3", "row 4 has no `path`", "two\nlines"]
    );
    assert_eq!(items[2].name, "t.csv:path, row 3");
}

#[test]
fn a_tsv_is_a_table_too() {
    let scene = Scene::new(&[]);
    scene.write("t.tsv", "id\tpath\n1\ta.jpg\n");
    assert_eq!(scene.names(&["t.tsv:path"]), ["a.jpg"]);
}

#[test]
fn json_lines_are_searched_by_key_and_key_of_key() {
    let scene = Scene::new(&[]);
    let lines = [
        r#"{"path": "a.jpg", "x": {"y": "n1", "path": "no"}}"#,
        r#"{"other": 1}"#,
        r#"{"path": null}"#,
        r#"{"path": ["a"]}"#,
        "no json",
        "",
        r#"{"path": "", "x.y": "dotted"}"#,
        r#"{"path": "\u00e9\n.jpg", "x": {"y": {"z": 1}}}"#,
        r#"{"path": 7, "x": "flat"}"#,
    ];
    scene.write("t.jsonl", lines.join("\n"));
    let items = scene.items(&["t.jsonl:path"]);
    let told: Vec<_> = told(&items);
    assert_eq!(told[0], "a.jpg");
    assert_eq!(
        told[1..4],
        ["line 2 has no `path`", "`path` is null in line 3", "`path` is no text in line 4"]
    );
    assert!(told[4].starts_with("line 5 is no JSON"), "{told:?}");
    assert_eq!(told[5..], ["`path` is empty in line 7", "é\n.jpg", "7"]);
    let items = scene.items(&["t.jsonl:x.y"]);
    assert_eq!(items[0].name, "n1");
    assert_eq!(items[5].name, "dotted");
    assert_eq!(items.len(), 8);
}

/// A table with an optional text, a number and a nested text.
pub(crate) fn write_parquet(path: &Path, rows: &[Option<&str>], compression: Compression) {
    let schema = "message t {
        optional binary path (UTF8);
        required int64 n;
        optional group a { optional binary b (UTF8); }
        optional group l (LIST) { repeated group list { optional binary item (UTF8); } }
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
    for rows in rows.chunks(3) {
        let mut group = writer.next_row_group().unwrap();
        let texts: Vec<ByteArray> = rows.iter().flatten().map(|text| ByteArray::from(*text)).collect();
        let levels =
            |most: i16| rows.iter().map(|row| if row.is_some() { most } else { 0 }).collect::<Vec<_>>();
        let mut at = 0;
        while let Some(mut column) = group.next_column().unwrap() {
            match at {
                0 => _ = column.typed::<ByteArrayType>().write_batch(&texts, Some(&levels(1)), None).unwrap(),
                1 => {
                    let numbers = vec![1; rows.len()];
                    column
                        .typed::<parquet::data_type::Int64Type>()
                        .write_batch(&numbers, None, None)
                        .unwrap();
                }
                2 => _ = column.typed::<ByteArrayType>().write_batch(&texts, Some(&levels(2)), None).unwrap(),
                _ => {
                    let none = vec![0; rows.len()];
                    column.typed::<ByteArrayType>().write_batch(&[], Some(&none), Some(&none)).unwrap();
                }
            }
            column.close().unwrap();
            at += 1;
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn a_parquet_column_names_items_whatever_its_compression() {
    let scene = Scene::new(&[]);
    let rows = [Some("a.jpg"), None, Some("c.jpg"), Some(""), Some("e.jpg")];
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(parquet::basic::ZstdLevel::default()),
        Compression::GZIP(parquet::basic::GzipLevel::default()),
        Compression::LZ4_RAW,
    ] {
        write_parquet(&scene.base().join("t.parquet"), &rows, compression);
        let wanted = ["a.jpg", "`path` is null in row 2", "c.jpg", "`path` is empty in row 4", "e.jpg"];
        assert_eq!(told(&scene.items(&["t.parquet:path"])), wanted, "{compression:?}");
        assert_eq!(scene.names(&["t.parquet:a.b"])[4], "e.jpg");
    }
}

#[test]
fn a_table_without_a_column_says_which_there_are() {
    let scene = Scene::new(&[]);
    scene.write("t.csv", "id,file name\n1,a\n");
    scene.write("t.jsonl", "{\"a\": 1}\n{\"b\": 2}\n");
    write_parquet(&scene.base().join("t.parquet"), &[], Compression::UNCOMPRESSED);
    for (input, words) in [
        ("t.csv", "It has `id`, `file name`; write `t.csv:id`"),
        ("t.csv", "list file"),
        ("t.jsonl", "`a`, `b`"),
        ("t.parquet", "`path`, `n`, `a.b`"),
        ("t.csv:path", "has no column `path`; its columns are `id`, `file name`"),
        ("t.jsonl:c", "has no column `c`; its columns are `a`, `b`"),
        ("t.parquet:c", "has no column `c`; its columns are `path`"),
    ] {
        let told = scene.mistake(input);
        assert!(told.contains(words), "{input}: {told}");
    }
}

#[test]
fn a_parquet_column_that_is_no_text_is_refused() {
    let scene = Scene::new(&[]);
    write_parquet(&scene.base().join("t.parquet"), &[Some("a")], Compression::UNCOMPRESSED);
    assert!(scene.mistake("t.parquet:n").contains("INT64, not text"));
    assert!(scene.mistake("t.parquet:l.list.item").contains("lists"));
}

#[test]
fn a_glob_of_tables_is_read_table_by_table() {
    let scene = Scene::new(&[]);
    scene.write("t/2.csv", "path\nc\n");
    scene.write("t/1.csv", "path\na\nb\n");
    assert_eq!(scene.names(&["t/*.csv:path"]), ["a", "b", "c"]);
    assert_eq!(scene.names(&["t/{2,1}.csv:path"]), ["c", "a", "b"]);
}

#[test]
fn with_value_a_column_holds_the_texts() {
    let mut scene = Scene::new(&[]);
    scene.decode = Some(Decode::Value);
    scene.write("t.csv", "text\n\"one\ntwo\"\n");
    assert_eq!(scene.items(&["t.csv:text"])[0].place, Place::Value("one\ntwo".to_owned()));
}

#[test]
fn a_quote_that_is_never_closed_does_not_take_all_memory() {
    let scene = Scene::new(&[]);
    let mut table = b"path\na.jpg\n\"".to_vec();
    table.resize(70 << 20, b'x');
    scene.write("t.csv", &table);
    let problems = scene.freeze(&["t.csv:path"]).unwrap_err();
    assert!(problems[0].what.contains("quote not closed"), "{problems:?}");
}

/// A table with a struct of data and path, as Hugging Face datasets have it, and two columns of bytes.
pub(crate) fn write_images(path: &Path, rows: &[(Option<&[u8]>, Option<&str>)]) {
    let schema = "message t {
        optional group image { optional binary bytes; optional binary path (UTF8); }
        optional binary raw;
        optional group masks (LIST) { repeated group list { optional binary element; } }
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::default()).unwrap();
    for rows in rows.chunks(2) {
        let mut group = writer.next_row_group().unwrap();
        let data: Vec<_> = rows.iter().map(|row| row.0.map(|data| ByteArray::from(data.to_vec()))).collect();
        let paths: Vec<_> = rows.iter().map(|row| row.1.map(ByteArray::from)).collect();
        for (values, most) in [(&data, 2), (&paths, 2), (&data, 1)] {
            let levels: Vec<i16> =
                values.iter().map(|value| if value.is_some() { most } else { most - 1 }).collect();
            let values: Vec<ByteArray> = values.iter().flatten().cloned().collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).unwrap();
            column.close().unwrap();
        }
        let (mut column, none) = (group.next_column().unwrap().unwrap(), vec![0; rows.len()]);
        column.typed::<ByteArrayType>().write_batch(&[], Some(&none), Some(&none)).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

const IMAGES: [(Option<&[u8]>, Option<&str>); 3] =
    [(Some(b"\xFF\xD8 one"), Some("a/1.jpg")), (None, Some("2.jpg")), (Some(b"three"), None)];

#[test]
fn a_column_of_data_makes_every_row_an_item_of_its_own_name() {
    let scene = Scene::new(&["2.jpg"]);
    write_images(&scene.base().join("t.parquet"), &IMAGES);
    for column in ["image", "image.bytes"] {
        let items = scene.items(&[&format!("t.parquet:{column}")]);
        let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
        let wanted = ["0/a/1.jpg", "1/2.jpg", "2"].map(|row| format!("t.parquet:{column}/{row}"));
        assert_eq!(names, wanted.each_ref());
        let places: Vec<_> = items.iter().map(|item| item.place.clone()).collect();
        assert_eq!(places, [0, 1, 2].map(|row| Place::Row { table: 0, row }));
    }
    let list = scene.freeze(&["t.parquet:image", "t.parquet:raw", "t.parquet:image"]).unwrap();
    assert_eq!((list.len(), list.repeated()), (6, 3), "another column is another item");
    assert_eq!(list.get(5).unwrap().name, "t.parquet:raw/2");
    assert_eq!(list.get(5).unwrap().place, Place::Row { table: 1, row: 2 });
    let tables = list.tables();
    assert_eq!((tables[0].data.as_str(), tables[0].path.as_deref()), ("image.bytes", Some("image.path")));
    assert_eq!((tables[1].data.as_str(), tables[1].path.as_deref()), ("raw", None));
    assert_eq!(tables[1].file, scene.base().join("t.parquet"));
}

#[test]
fn rows_whose_paths_are_damaged_go_by_their_number_and_the_others_go_on() {
    let scene = Scene::new(&["2.jpg"]);
    let [damaged, whole] = ["a.parquet", "b.parquet"].map(|name| scene.base().join(name));
    write_images(&damaged, &IMAGES);
    write_images(&whole, &IMAGES);
    let mut bytes = std::fs::read(&damaged).unwrap();
    let reader = SerializedFileReader::new(File::open(&damaged).unwrap()).unwrap();
    let (start, _) = reader.metadata().row_group(0).column(1).byte_range();
    let start = usize::try_from(start).unwrap();
    bytes[start..start + 8].fill(0xff);
    std::fs::write(&damaged, bytes).unwrap();
    let names = scene.names(&["*.parquet:image"]);
    let wanted = ["a.parquet:image/0", "a.parquet:image/1", "a.parquet:image/2", "b.parquet:image/0/a/1.jpg"];
    assert_eq!((&names[..4], names.len()), (&wanted.map(str::to_owned)[..], 6));
}

#[test]
fn binary_that_names_a_file_is_a_path_and_with_value_a_text() {
    let mut scene = Scene::new(&["2.jpg"]);
    write_images(
        &scene.base().join("t.parquet"),
        &[(None, None), (Some(b"2.jpg"), None), (Some(b"3.jpg"), None)],
    );
    assert_eq!(told(&scene.items(&["t.parquet:raw"])), ["`raw` is null in row 1", "2.jpg", "3.jpg"]);
    scene.decode = Some(Decode::Value);
    assert_eq!(scene.items(&["t.parquet:raw"])[1].place, Place::Value("2.jpg".to_owned()));
}

#[test]
fn a_list_with_rows_is_of_a_format_that_an_older_program_refuses() {
    let scene = Scene::new(&["2.jpg"]);
    write_images(&scene.base().join("t.parquet"), &IMAGES);
    for (input, version) in [("2.jpg", "\"version\": 1"), ("t.parquet:image", "\"version\": 2")] {
        scene.items(&[input]);
        let meta = std::fs::read_to_string(scene.out().join("items.json")).unwrap();
        assert!(meta.contains(version), "{meta}");
    }
}

#[test]
fn data_that_changed_in_number_or_name_is_a_change_and_the_same_rows_are_none() {
    let scene = Scene::new(&[]);
    let file = scene.base().join("t.parquet");
    write_images(&file, &IMAGES);
    let list = scene.freeze(&["t.parquet:image"]).unwrap();
    let changes =
        || scene.with(&["t.parquet:image"], |wanted| gpulane_items::changes(&list, wanted).unwrap());
    write_images(&file, &[(Some(b"other data"), Some("a/1.jpg")), IMAGES[1], IMAGES[2]]);
    assert_eq!(changes(), Vec::<String>::new());
    write_images(&file, &[IMAGES[0], IMAGES[2], IMAGES[2]]);
    assert!(
        changes()[0].contains("`t.parquet:image/1`, where `t.parquet:image/1/2.jpg` was"),
        "{:?}",
        changes()
    );
    write_images(&file, &IMAGES[..2]);
    assert!(changes()[0].contains("3 items when the run began, 2 now"), "{:?}", changes());
}

/// Writes the footer anew: its row groups have so many rows, as it says.
fn say_rows(path: &Path, rows: &[i64]) {
    let meta = ParquetMetaDataReader::new().parse_and_finish(&File::open(path).unwrap()).unwrap();
    let groups = meta.row_groups().iter().zip(rows);
    let groups =
        groups.map(|(group, rows)| group.clone().into_builder().set_num_rows(*rows).build().unwrap());
    let file = meta.file_metadata();
    let file = FileMetaData::new(2, rows.iter().sum(), None, None, file.schema_descr_ptr(), None);
    let said = ParquetMetaData::new(file, groups.collect());
    let bytes = std::fs::read(path).unwrap();
    let footer = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap());
    let mut out = File::create(path).unwrap();
    std::io::Write::write_all(&mut out, &bytes[..bytes.len() - 8 - footer as usize]).unwrap();
    ParquetMetaDataWriter::new(out, &said).finish().unwrap();
}

#[test]
fn a_table_has_no_more_rows_than_are_in_it() {
    let scene = Scene::new(&[]);
    let file = scene.base().join("t.parquet");
    let names = || scene.items(&["t.parquet:image"]).into_iter().map(|item| item.name).collect::<Vec<_>>();
    write_images(&file, &IMAGES);
    say_rows(&file, &[2, 1]);
    assert_eq!(names().len(), 3);
    // Of a group the rows it says it has, although its column of paths goes on.
    say_rows(&file, &[1, 1]);
    assert_eq!(names(), ["t.parquet:image/0/a/1.jpg", "t.parquet:image/1"]);
    for (rows, words) in [
        ([1_000_000_000_000, 1], "says that these are 1000000000001 rows"),
        ([2_000_000, 1], "its row group 0 has pages with 2 of 2000000 rows"),
        ([2, 2_000_000], "its row group 1 has pages with 1 of 2000000 rows"),
    ] {
        say_rows(&file, &rows);
        let said = scene.freeze(&["t.parquet:image"]).unwrap_err();
        assert!(said[0].what.contains(words), "{said:?}");
    }
}

#[test]
fn a_column_of_lists_is_refused_by_its_own_name() {
    let scene = Scene::new(&[]);
    write_images(&scene.base().join("t.parquet"), &IMAGES);
    for column in ["masks", "masks.list.element"] {
        let said = scene.freeze(&[&format!("t.parquet:{column}")]).unwrap_err();
        assert_eq!(said[0].what, format!("column `{column}` holds lists"));
    }
}

#[test]
fn paths_that_share_their_beginnings_are_read_and_bounded() {
    let write = |file: &Path, paths: &[String]| {
        let schema = Arc::new(parse_message_type("message t { required binary path (UTF8); }").unwrap());
        let properties = WriterProperties::builder().set_dictionary_enabled(false);
        let properties = Arc::new(properties.set_encoding(Encoding::DELTA_BYTE_ARRAY).build());
        let mut writer = SerializedFileWriter::new(File::create(file).unwrap(), schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values: Vec<ByteArray> = paths.iter().map(|path| ByteArray::from(path.as_str())).collect();
        column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
    };
    let scene = Scene::new(&[]);
    let paths: Vec<String> = (0..3000).map(|row| format!("data/train/n{:04}/{row}.jpg", row / 7)).collect();
    write(&scene.base().join("t.parquet"), &paths);
    assert_eq!(told(&scene.items(&["t.parquet:path"])), paths);
    write(&scene.base().join("t.parquet"), &vec!["x".repeat(100_000); 3000]);
    let said = scene.freeze(&["t.parquet:path"]).unwrap_err();
    assert!(said[0].what.contains("because its values share their beginnings"), "{said:?}");
}

#[test]
fn a_table_of_several_that_cannot_be_opened_is_an_item_that_fails() {
    let scene = Scene::new(&[]);
    scene.write("t-1.parquet", "PAR1 cut");
    write_images(&scene.base().join("t-2.parquet"), &IMAGES);
    let items = scene.items(&["t-*.parquet:image"]);
    assert_eq!((items.len(), items[0].name.as_str()), (4, "t-1.parquet"));
    assert!(reason(&items[0]).contains("cannot read"), "{items:?}");
    assert_eq!(items[1].name, "t-2.parquet:image/0/a/1.jpg");
    assert!(scene.mistake("t-1.parquet:image").contains("cannot read"), "alone it is refused");
    assert!(scene.mistake("t-2.parquet:masks.list.element").contains("lists"));
}
