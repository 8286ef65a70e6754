//! Decoding takes no more memory than was claimed for it, and nothing is taken where more would be needed than there is. Each file
//! is decoded in a process of its own, whose largest size counts: also what libraries in C take.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod bombs;
mod place;

use std::process::Command;

use bombs::{
    TILE, alpha, bmp, canvas, frame, gif, jpeg, long, lossless, lossy, plain_jpeg, png, profile, short, tiff,
    tiff_page, tiff_strip, webp, zeros,
};
use gpulane_decode::{Decoder, Finish, Limits, Place};
use place::image;

const MIB: u64 = 1 << 20;

/// What decoding one may take.
const LIMIT: u64 = 256 * MIB;

/// What a process may take beside what was claimed.
const BESIDE: u64 = 4 * MIB;

/// What it may take for the notes of an image.
const NOTES: u64 = 20 * MIB;

/// Where the name of the case stands for the process that decodes it.
const CASE: &str = "GPULANE_MEMORY_CASE";

/// An image, and how it is decoded.
struct Case {
    name: &'static str,
    file: fn() -> Vec<u8>,
    decode: &'static str,
    finish: Finish,
}

const fn case(name: &'static str, decode: &'static str, file: fn() -> Vec<u8>) -> Case {
    Case { name, file, decode, finish: Finish::Here }
}

/// The sides of most.
const SIDES: (u32, u32) = (3000, 2400);

/// Their pixels.
const PIXELS: u64 = 3000 * 2400;

/// Images that are whole, or nearly: all of the memory is used.
const WHOLE: &[Case] = &[
    case("webp lossless", "rgb:64x64", || webp(&[(b"VP8L", lossless(SIDES, false))], 38)),
    case("webp lossless whole", "rgb", || webp(&[(b"VP8L", lossless(SIDES, false))], 38)),
    case("webp lossless alpha", "rgb:64x64", || webp(&[(b"VP8L", lossless(SIDES, true))], 0)),
    case("webp lossy", "rgb", || webp(&[(b"VP8 ", lossy(SIDES, 250_000))], 0)),
    case("webp lossy alpha", "rgb:64x64", || {
        webp(&[(b"VP8X", canvas(SIDES, 0x10)), (b"ALPH", alpha()), (b"VP8 ", lossy(SIDES, 250_000))], 0)
    }),
    case("webp animated", "rgb:64x64", || {
        let frame = frame(SIDES, &[(b"VP8L", lossless(SIDES, false))]);
        webp(&[(b"VP8X", canvas(SIDES, 0x12)), (b"ANIM", vec![0; 6]), (b"ANMF", frame)], 0)
    }),
    case("webp animated lossy alpha", "rgb:64x64", || {
        let frame = frame(SIDES, &[(b"ALPH", alpha()), (b"VP8 ", lossy(SIDES, 250_000))]);
        webp(&[(b"VP8X", canvas(SIDES, 0x12)), (b"ANIM", vec![0; 6]), (b"ANMF", frame)], 0)
    }),
    case("gif", "rgb:64x64", || gif(SIDES)),
    case("gif whole", "rgb", || gif(SIDES)),
    case("gif gray", "gray", || gif(SIDES)),
    case("png", "rgb:64x64", || png(SIDES, (8, 6, 0), &[])),
    case("png 16", "rgb:64x64", || png(SIDES, (16, 6, 0), &[])),
    case("png 16 whole", "gray", || png(SIDES, (16, 0, 0), &[])),
    case("png 16 interlaced", "rgb", || png(SIDES, (16, 6, 1), &[])),
    case("png bits interlaced", "rgb:64x64", || png(SIDES, (1, 0, 1), &[])),
    case("png wide", "rgb", || png((1_000_000, 3), (16, 6, 0), &[])),
    case("png wide resized", "rgb:64x64", || png((400_000, 3), (8, 2, 0), &[])),
    case("png tall to large", "rgb:3000x3000", || png((3, 400_000), (8, 2, 0), &[])),
    case("png wide to high", "rgb:8x3000", || png((20_000, 3), (8, 2, 0), &[])),
    case("png nearest", "rgb:64x64:nearest", || png(SIDES, (8, 6, 0), &[])),
    case("png box", "rgb:1000x900:box", || png(SIDES, (8, 2, 0), &[])),
    case("png lanczos", "rgb:1900x1900:lanczos", || png(SIDES, (8, 2, 0), &[])),
    case("png wide lanczos", "rgb:64x3000:lanczos", || png((40_000, 30), (8, 2, 0), &[])),
    case("png short side", "rgb:900x900:short=1000:bicubic", || png(SIDES, (8, 2, 0), &[])),
    case("png short side of a line", "rgb:900x900:short=1000", || png((1, 400_000), (8, 2, 0), &[])),
    case("png alpha", "rgba", || png(SIDES, (8, 6, 0), &[])),
    case("png alpha resized", "rgba:1900x1900", || png(SIDES, (8, 6, 0), &[])),
    case("png opaque", "rgba:1900x1900:hamming", || png(SIDES, (8, 2, 0), &[])),
    case("png profile", "rgb:srgb", || png(SIDES, (8, 2, 0), &[(b"iCCP", packed(&large_profile()))])),
    case("png profile resized", "rgba:1900x1900:srgb", || {
        png(SIDES, (8, 6, 0), &[(b"iCCP", packed(&rgb_profile()))])
    }),
    case("bmp", "rgb:64x64", || bmp(SIDES)),
    case("bmp gray", "gray", || bmp(SIDES)),
    case("tiff", "rgb:64x64", || tiff_strip(SIDES, 3, 8)),
    case("tiff 16", "rgb", || tiff_strip(SIDES, 4, 16)),
    case("tiff one pixel in a wide tile", "rgb", || tiff_tile(2_000_000, 3)),
    case("tiff many samples", "rgb", || tiff_tile(2000, 4000)),
    case("tiff bits", "rgb:64x64", || tiff_page(SIDES, [1, 8, 0, 1], vec![], &zeros(PIXELS / 8))),
    case("tiff gray 16", "gray", || tiff_page(SIDES, [16, 8, 1, 1], vec![], &zeros(2 * PIXELS))),
    case("tiff gray 16 inverted", "gray", || tiff_page(SIDES, [16, 8, 0, 1], vec![], &zeros(2 * PIXELS))),
    case("tiff 12 bits", "gray", || tiff_page(SIDES, [12, 8, 1, 1], vec![], &zeros(PIXELS * 3 / 2))),
    case("tiff extra samples", "rgb", || {
        tiff_page(SIDES, [8, 8, 2, 5], vec![short(338, &[0, 0])], &zeros(5 * PIXELS))
    }),
    case("tiff associated alpha", "rgb", || {
        tiff_page(SIDES, [16, 8, 2, 4], vec![short(338, &[1])], &zeros(8 * PIXELS))
    }),
    case("tiff palette", "rgb", || {
        tiff_page(SIDES, [8, 8, 3, 1], vec![short(320, &[0xff00; 768])], &zeros(PIXELS))
    }),
    case("tiff tile", "rgb:64x64", || {
        let tile = vec![long(322, SIDES.0 + 200), long(323, SIDES.1 + 200)];
        tiff_page(SIDES, [8, 8, 2, 3], tile, &zeros(3 * 3200 * 2600))
    }),
    case("tiff chroma", "rgb", || {
        tiff_page(SIDES, [8, 8, 6, 3], vec![short(530, &[2, 2])], &zeros(PIXELS * 3 / 2))
    }),
    case("tiff predicted floats", "gray", || {
        let more = vec![short(317, &[3]), short(339, &[3])];
        tiff_page(SIDES, [32, 8, 1, 1], more, &zeros(4 * PIXELS))
    }),
    case("tiff packbits, bits turned", "rgb", || {
        let rows = vec![[0x81, 0]; SIDES.1 as usize * 71].concat();
        tiff_page(SIDES, [8, 32_773, 2, 3], vec![short(266, &[2])], &rows)
    }),
    case("tiff fax", "rgb", || tiff_page(SIDES, [1, 4, 0, 1], vec![], &[0xff; SIDES.1 as usize / 8])),
    case("tiff jpeg", "rgb", || tiff_page(SIDES, [8, 7, 6, 3], vec![], &plain_jpeg(SIDES))),
    case("tiff jpeg of several scans", "rgb:64x64", || {
        tiff_page(SIDES, [8, 7, 6, 3], vec![], &jpeg(&image("jpeg-progressive.jpg"), SIDES))
    }),
    case("tiff webp", "rgb", || {
        tiff_page(SIDES, [8, 50_001, 2, 3], vec![], &webp(&[(b"VP8 ", lossy(SIDES, 250_000))], 0))
    }),
    case("tiff zstd", "rgb", || {
        let data = zstd::bulk::compress(&vec![0; 3 * 3000 * 2400], 19).expect("compresses");
        tiff_page(SIDES, [8, 50_000, 2, 3], vec![], &data)
    }),
    case("tiff zstd with more rows", "rgb", || {
        let data = zstd::bulk::compress(&vec![0; 3 * 3000 * 2500], 19).expect("compresses");
        tiff_page(SIDES, [8, 50_000, 2, 3], vec![], &data)
    }),
    case("tiff lzma", "gray", || {
        tiff_page((4000, 5000), [8, 34_925, 1, 1], vec![], &image("zeros-20000000.xz"))
    }),
    case("jpeg", "rgb:2500x2500", || jpeg(&image("jpeg-444.jpg"), SIDES)),
    case("jpeg whole and resized", "rgb:1900x1900", || plain_jpeg(SIDES)),
    case("jpeg whole and gray", "gray:1900x1900", || plain_jpeg(SIDES)),
    case("jpeg bicubic", "rgb:1900x1900:bicubic", || jpeg(&image("jpeg-420.jpg"), SIDES)),
    case("jpeg turned box", "rgb:1900x1900:box", || jpeg(&image("jpeg-exif-6.jpg"), SIDES)),
    case("jpeg turned nearest", "rgb:64x64:nearest", || jpeg(&image("jpeg-exif-6.jpg"), SIDES)),
    case("jpeg with alpha", "rgba", || jpeg(&image("jpeg-420.jpg"), SIDES)),
    case("jpeg with alpha resized", "rgba:1900x1900:lanczos", || jpeg(&image("jpeg-exif-6.jpg"), SIDES)),
    case("jpeg whole", "rgb", || jpeg(&image("jpeg-444.jpg"), SIDES)),
    case("jpeg turned", "rgb", || jpeg(&image("jpeg-exif-6.jpg"), SIDES)),
    case("jpeg turned and resized", "rgb:2500x2500", || jpeg(&image("jpeg-exif-6.jpg"), SIDES)),
    case("jpeg wide", "rgb:2000x2", || jpeg(&image("jpeg-420.jpg"), (65_000, 40))),
    case("jpeg progressive", "rgb:64x64", || jpeg(&image("jpeg-progressive.jpg"), SIDES)),
    case("jpeg ink", "rgb:64x64", || jpeg(&image("jpeg-cmyk.jpg"), SIDES)),
    case("jpeg ink whole", "rgb", || jpeg(&image("jpeg-ycck.jpg"), SIDES)),
    Case {
        name: "jpeg planes",
        file: || jpeg(&image("jpeg-420.jpg"), SIDES),
        decode: "rgb:3000x3000",
        finish: Finish::Planes,
    },
    Case {
        name: "jpeg progressive planes",
        file: || jpeg(&image("jpeg-progressive.jpg"), SIDES),
        decode: "rgb:64x64",
        finish: Finish::Planes,
    },
];

/// Files that claim what nobody has; next to nothing is taken for them.
const REFUSED: &[Case] = &[
    case("a webp of 38 bytes", "rgb:64x64", || webp(&[(b"VP8L", lossless((13_300, 13_300), false))], 38)),
    case("a webp's frame larger than its image", "rgb", || {
        webp(&[(b"VP8X", canvas((1, 1), 0)), (b"VP8 ", lossy((16_383, 16_383), 400_000))], 0)
    }),
    case("a webp's notes larger than its file", "rgb", || {
        let mut file = webp(&[(b"VP8X", canvas((9, 9), 8)), (b"EXIF", vec![0; 8])], 0);
        file[38..42].copy_from_slice(&[0xff; 4]);
        file
    }),
    case("an animated webp", "rgb:64x64", || {
        let frame = frame((9, 9), &[(b"VP8L", lossless((9, 9), false))]);
        webp(&[(b"VP8X", canvas((13_000, 13_000), 0x12)), (b"ANIM", vec![0; 6]), (b"ANMF", frame)], 0)
    }),
    case("a gif", "rgb:64x64", || gif((13_000, 13_000))[..200].to_vec()),
    case("a png of 16 bits", "rgb:64x64", || png((13_000, 13_000), (16, 6, 0), &[])[..200].to_vec()),
    case("a png's profile", "rgb", || png((9, 9), (8, 2, 0), &[(b"iCCP", profile(600 * MIB))])),
    case("a profile's table", "rgb:srgb", || {
        let mut profile = large_profile();
        let at = profile.windows(4).position(|four| four == b"mft2").expect("a table") + 8;
        profile[at..at + 3].copy_from_slice(&[4, 3, 90]);
        png((9, 9), (8, 2, 0), &[(b"iCCP", packed(&profile))])
    }),
    case("a png of one row", "rgb:64x64", || png((170_000_000, 1), (8, 2, 0), &[])[..200].to_vec()),
    case("a bmp", "rgb:64x64", || bmp((13_000, 13_000))),
    case("a tiff", "rgb:64x64", || tiff_strip((13_000, 13_000), 3, 8)),
    case("a tiff's tile", "rgb", || tiff_tile(500_000_000, 3)),
    case("a tiff's samples", "rgb", || tiff_tile(100_000, 60_000)),
    case("a tiff's strip of 16 bits", "gray:64x64", || {
        tiff_page((13_000, 13_000), [16, 8, 1, 1], vec![], &zeros(100))
    }),
    case("a tiff's planes", "rgb", || {
        let more = vec![short(284, &[2]), (273, 4, 3, [8; 12].to_vec()), (279, 4, 3, [9; 12].to_vec())];
        let entries = [
            vec![long(256, 13_000), long(257, 13_000), short(258, &[16]), short(259, &[8])],
            vec![short(262, &[2]), short(277, &[3])],
            more,
        ];
        tiff(entries.concat(), &zeros(100), (65_000, 65_001))
    }),
    case("a tiff's tag", "rgb", || {
        let mut entries = vec![long(256, 9), long(257, 9), short(258, &[8]), short(262, &[1]), long(278, 9)];
        entries.push((273, 1, 30_000_000, vec![1; 30_000_000]));
        entries.push((279, 1, 30_000_000, vec![1; 30_000_000]));
        tiff(entries, &[], (65_000, 65_001))
    }),
    case("a progressive jpeg", "rgb:64x64", || jpeg(&image("jpeg-progressive.jpg"), (13_000, 13_000))),
    case("an array", "npy", || {
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (60000, 60000), }";
        let length = u8::try_from(header.len()).expect("short");
        [b"\x93NUMPY\x01\0".as_slice(), &[length, 0], header.as_bytes()].concat()
    }),
];

/// A profile as a PNG carries it.
fn packed(profile: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::ZlibEncoder::new(b"x\0\0".to_vec(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packer, profile).expect("packs");
    packer.finish().expect("packs")
}

/// Colours far from sRGB's.
fn rgb_profile() -> Vec<u8> {
    let colours =
        [(b"rXYZ", [52_275, 18_877, 0]), (b"gXYZ", [8_860, 46_654, 0]), (b"bXYZ", [2_054, 6, 54_061])];
    let mut tags: Vec<(&[u8; 4], Vec<u8>)> = Vec::new();
    for (name, colour) in colours {
        let numbers: Vec<u8> = colour.iter().flat_map(|number: &i32| number.to_be_bytes()).collect();
        tags.push((name, [b"XYZ \0\0\0\0".as_slice(), &numbers].concat()));
    }
    for name in [b"rTRC", b"gTRC", b"bTRC"] {
        tags.push((name, b"curv\0\0\0\0\0\0\0\x01\x01\xcd".to_vec()));
    }
    built(b"mntrRGB XYZ ", &tags)
}

/// Nearly as many bytes as a profile may have, most of them in a table that Little CMS reads.
fn large_profile() -> Vec<u8> {
    let grid = 87;
    let mut table = b"mft2\0\0\0\0\x03\x03\0\0".to_vec();
    table[10] = grid;
    for number in [1_i32, 0, 0, 0, 1, 0, 0, 0, 1] {
        table.extend((number << 16).to_be_bytes());
    }
    table.extend([0, 2, 0, 2]);
    table.extend([0, 0, 255, 255].repeat(3));
    table.extend(vec![0x55; usize::from(grid).pow(3) * 6]);
    table.extend([0, 0, 255, 255].repeat(3));
    built(b"scnrRGB Lab ", &[(b"A2B0", table)])
}

/// A profile of this kind, for these colours, with these tags.
fn built(kind: &[u8; 12], tags: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let number = |number: usize| u32::try_from(number).expect("small").to_be_bytes();
    let (mut table, mut bodies) = (number(tags.len()).to_vec(), Vec::new());
    for (name, body) in tags {
        table.extend(name.as_slice());
        table.extend(number(128 + 4 + 12 * tags.len() + bodies.len()));
        table.extend(number(body.len()));
        bodies.extend(body);
        bodies.resize(bodies.len().next_multiple_of(4), 0);
    }
    let mut head = vec![0; 128];
    head[..4].copy_from_slice(&number(128 + table.len() + bodies.len()));
    head[8..12].copy_from_slice(&[2, 0x40, 0, 0]);
    head[12..24].copy_from_slice(kind);
    head[36..40].copy_from_slice(b"acsp");
    for (at, value) in [(68, 63_190_u32), (72, 65_536), (76, 54_061)] {
        head[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
    [head, table, bodies].concat()
}

/// One pixel in a tile of such a width, with so many samples.
fn tiff_tile(width: u32, samples: u16) -> Vec<u8> {
    let extra = vec![0; usize::from(samples) - 3];
    let mut entries = vec![
        long(256, 1),
        long(257, 1),
        short(258, &[8]),
        short(259, &[8]),
        short(262, &[2]),
        short(277, &[samples]),
        long(322, width),
        long(323, 1),
    ];
    entries.extend((samples > 3).then(|| short(338, &extra)));
    tiff(entries, &zeros(u64::from(width) * u64::from(samples)), TILE)
}

/// Room for what is decoded, and what was claimed beside it.
#[derive(Default)]
struct Counting {
    room: Vec<u8>,
    claimed: u64,
}

impl Place for Counting {
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
        self.room = vec![0; usize::try_from(bytes).ok()?];
        Some(&mut self.room)
    }

    fn claim(&mut self, bytes: u64) {
        assert!(self.room.is_empty() && self.claimed == 0, "once, and first");
        self.claimed = bytes;
    }
}

/// A figure of this process, in bytes.
fn figure(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("known");
    1024 * line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().expect("a number")
}

/// What a process of its own says of a case.
struct Seen {
    peak: u64,
    claimed: u64,
    room: u64,
    made: String,
}

fn seen(case: &Case) -> Seen {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "one_case", "--ignored", "--nocapture"]).env(CASE, case.name);
    let output = command.output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .find_map(|line| line.split_once("SEEN "))
        .unwrap_or_else(|| panic!("{}: {output:?}", case.name));
    let mut words = line.1.splitn(4, ' ');
    let mut number = || words.next().expect("a figure").parse().expect("a number");
    let (peak, claimed, room) = (number(), number(), number());
    Seen { peak, claimed, room, made: words.next().unwrap_or_default().to_owned() }
}

#[test]
#[ignore = "run by the others, in a process of its own for each case"]
fn one_case() {
    let name = std::env::var(CASE).expect("the name of a case");
    let case = WHOLE.iter().chain(REFUSED).find(|case| case.name == name).expect("a case");
    let limits = Limits { max_memory: LIMIT, ..Limits::default() };
    let (file, mut place) = ((case.file)(), Counting::default());
    let mut decoder = Decoder::new(case.decode.parse().expect(case.decode), limits);
    // What was needed to make the file is not counted.
    std::fs::write("/proc/self/clear_refs", "5").expect("the largest size begins anew");
    let before = figure("VmRSS");
    let made = decoder.decode(&file, case.finish, &mut place);
    let peak = figure("VmHWM").saturating_sub(before);
    let made = made.map_or_else(|rejected| rejected.to_string(), |_| "made".to_owned());
    println!("SEEN {peak} {} {} {made}", place.claimed, place.room.len());
}

#[test]
fn no_image_takes_more_than_was_claimed_for_it() {
    let mut wrong = Vec::new();
    for case in WHOLE {
        let Seen { peak, claimed, room, made } = seen(case);
        let line = format!(
            "{}: {} MiB used, {} claimed beside {}; {made}",
            case.name,
            peak / MIB,
            claimed / MIB,
            room / MIB
        );
        println!("{line}");
        // A claim far beyond what is used would keep others waiting.
        if peak > claimed + room + BESIDE || claimed + room > 3 * peak + NOTES {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_cannot_be_decoded_within_the_limit_takes_nothing() {
    let mut wrong = Vec::new();
    for case in REFUSED {
        let Seen { peak, claimed, room, made } = seen(case);
        println!("{}: {} MiB used, {claimed} claimed; {made}", case.name, peak / MIB);
        if peak > NOTES || claimed + room > BESIDE {
            wrong.push(format!(
                "{}: {} MiB used, {claimed} claimed beside {room}; {made}",
                case.name,
                peak / MIB
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_reason_names_the_sides_the_need_and_the_limit() {
    for (name, words) in [
        ("a webp of 38 bytes", ["13300×13300", "1.3 GiB", "256 MiB"]),
        ("a png of 16 bits", ["13000×13000", "1.7 GiB", "256 MiB"]),
        ("a progressive jpeg", ["13000×13000", "MiB", "256 MiB"]),
    ] {
        let made = seen(REFUSED.iter().find(|case| case.name == name).expect(name)).made;
        assert!(words.iter().all(|word| made.contains(word)), "{name}: {made}");
    }
}
