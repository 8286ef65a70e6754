//! Freezes the items of a map into `items.list`, with `items.index` for finding one and `items.json`, written
//! last, for knowing that all of it is there. Streams: holds one block of the list, whatever its length.

use std::collections::HashSet;
use std::fs::{self, File};
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gpulane_model::Decode;

use crate::gather::{Taker, gather};
use crate::input::{matches_nothing, nothing_given, problem, resolve};
use crate::lacking::Lacking;
use crate::list::{
    Archive, BLOCK, DataTable, Entry, FIRST_VERSION, HEADER, INDEX, ItemList, LIST, META, Meta, Origin,
    Sealed, WITH_SAMPLES, WITH_TABLES, write_index,
};
use crate::problem::{Problem, Refused, Stop};
use crate::record::Found;
use crate::stamp::Stamp;
use crate::{Wanted, escape};

/// Items between two words of progress.
const WORD: u64 = 1 << 12;

/// Freezes the items into this directory, which must exist. An older list there is replaced. `progress` is
/// told now and then how many there are so far, and says whether to go on.
pub fn freeze(
    wanted: &Wanted,
    dir: &Path,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<ItemList, Refused> {
    let meta_path = dir.join(META);
    // From here on there is no list until there is a new one.
    match fs::remove_file(&meta_path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Refused::io("remove", &meta_path)(error));
        }
        _ => {}
    }
    let list = dir.join(LIST);
    let part = dir.join(".items.list.tmp");
    let frozen = gather_all(wanted, &part, progress);
    let (meta, entries) = frozen.inspect_err(|_| _ = fs::remove_file(&part))?;
    fs::rename(&part, &list).map_err(Refused::io("rename", &part))?;
    let index = dir.join(INDEX);
    write_index(&index, &entries).map_err(Refused::io("write", &index))?;
    write_meta(dir, &meta_path, &meta).map_err(Refused::io("write", &meta_path))?;
    ItemList::new(dir, meta, entries).map_err(Refused::io("open", &list))
}

/// Writes the list; all that is known of it then.
fn gather_all(
    wanted: &Wanted,
    part: &Path,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(Meta, Vec<Entry>), Refused> {
    let mut problems = Vec::new();
    let mut sources = Vec::new();
    for input in wanted.inputs {
        match resolve(input, wanted) {
            Ok(source) => sources.push((input, source)),
            Err(stop) => problems.extend(problem(input, stop)),
        }
    }
    if wanted.inputs.is_empty() {
        problems.push(nothing_given());
    }
    let mut freezer = Freezer::create(part, wanted, progress).map_err(Refused::io("create", part))?;
    for (input, source) in &sources {
        freezer.begin(input);
        let stopped = gather(source, wanted, &mut freezer);
        if freezer.enough {
            return Err(Refused::Enough { items: freezer.items });
        }
        let stopped =
            stopped.and_then(|()| if freezer.origin.items == 0 { Err(matches_nothing()) } else { Ok(()) });
        freezer.end();
        match stopped {
            Err(Stop::Taker(error)) => return Err(Refused::io("write", part)(error)),
            Err(Stop::Input(what, hint)) => {
                problems.push(Problem { input: (*input).clone(), what, hint });
            }
            Ok(()) => {}
        }
    }
    if !problems.is_empty() {
        return Err(Refused::Problems(problems));
    }
    freezer.finish(wanted).map_err(Refused::io("write", part))
}

fn write_meta(dir: &Path, path: &Path, meta: &Meta) -> io::Result<()> {
    let part: PathBuf = dir.join(".items.json.tmp");
    let mut file = crate::create(&part)?;
    serde_json::to_writer_pretty(&mut file, meta)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    // The list and its index have their names before anything says so.
    File::open(dir)?.sync_all()?;
    fs::rename(&part, path)?;
    File::open(dir)?.sync_all()
}

/// A hash is its own hash.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Writes items as they come.
struct Freezer<'a> {
    file: File,
    /// Lines of the block that is being filled.
    block: Vec<u8>,
    entries: Vec<Entry>,
    /// Bytes written before the block.
    written: u64,
    items: u64,
    /// Items left out because an earlier input has them.
    repeated: u64,
    /// 64-bit hashes of what earlier inputs named. Empty while there is one input only: what one input
    /// repeats stays.
    earlier: HashSet<u64, BuildHasherDefault<AsIs>>,
    /// Of what this input names; unused for the last input.
    now: Vec<u64>,
    /// What relative names are relative to.
    base: Vec<u8>,
    /// Inputs that come after this one.
    to_come: usize,
    /// What this input has given so far.
    origin: Origin,
    digest: crc32fast::Hasher,
    origins: Vec<Origin>,
    archives: Vec<Archive>,
    /// What could not be listed, and what else cannot be an item.
    lacking: Lacking,
    tables: Vec<DataTable>,
    /// Of the members of the last archive.
    archive_digest: crc32fast::Hasher,
    /// The line under way, reused.
    line: Vec<u8>,
    progress: &'a mut dyn FnMut(u64) -> bool,
    /// It was told to stop.
    enough: bool,
}

impl<'a> Freezer<'a> {
    fn create(part: &Path, wanted: &Wanted, progress: &'a mut dyn FnMut(u64) -> bool) -> io::Result<Self> {
        let mut file = crate::create(part)?;
        file.write_all(HEADER)?;
        Ok(Self {
            file,
            block: Vec::with_capacity(1 << 18),
            entries: Vec::new(),
            written: HEADER.len() as u64,
            items: 0,
            repeated: 0,
            earlier: HashSet::default(),
            now: Vec::new(),
            base: wanted.base.as_os_str().as_bytes().to_vec(),
            to_come: wanted.inputs.len(),
            origin: Origin::default(),
            digest: crc32fast::Hasher::new(),
            origins: Vec::new(),
            archives: Vec::new(),
            lacking: Lacking::default(),
            tables: Vec::new(),
            archive_digest: crc32fast::Hasher::new(),
            line: Vec::new(),
            progress,
            enough: false,
        })
    }

    fn begin(&mut self, input: &str) {
        self.to_come = self.to_come.saturating_sub(1);
        self.origin = Origin { input: input.to_owned(), ..Origin::default() };
        self.digest = crc32fast::Hasher::new();
    }

    fn end(&mut self) {
        self.close_archive();
        self.earlier.extend(self.now.drain(..));
        let mut origin = std::mem::take(&mut self.origin);
        origin.digest = std::mem::take(&mut self.digest).finalize();
        self.origins.push(origin);
    }

    fn close_archive(&mut self) {
        let digest = std::mem::take(&mut self.archive_digest).finalize();
        if let Some(archive) = self.archives.last_mut().filter(|archive| archive.digest.is_none()) {
            archive.digest = Some(digest);
        }
    }

    /// Whether an earlier input named this too. Texts may well be equal; they are never the same item.
    fn is_repeated(&mut self, found: &Found) -> bool {
        let (Found::File(name)
        | Found::Member { name, .. }
        | Found::Row { name, .. }
        | Found::BadMember { name, .. }
        | Found::BrokenShard { name, .. }
        | Found::Unlisted { name, .. }) = found
        else {
            return false;
        };
        if self.earlier.is_empty() && self.to_come == 0 {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(self.shortened(name));
        if let Found::BadMember { .. } | Found::BrokenShard { .. } | Found::Unlisted { .. } = found {
            // A broken tar has the name of the file, which a list may have given as an item.
            hasher.write(b"/");
        }
        let hash = hasher.finish();
        if self.to_come > 0 {
            self.now.push(hash);
        }
        self.earlier.contains(&hash)
    }

    /// A name as it would be without `./` or the base before it.
    fn shortened<'n>(&self, name: &'n [u8]) -> &'n [u8] {
        let short =
            name.strip_prefix(b"./").or_else(|| name.strip_prefix(self.base.as_slice())?.strip_prefix(b"/"));
        short.unwrap_or(name)
    }

    fn flush_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.block)?;
        self.entries.push(Entry { offset: self.written, crc: crc32fast::hash(&self.block) });
        self.written += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }

    fn finish(mut self, wanted: &Wanted) -> io::Result<(Meta, Vec<Entry>)> {
        self.flush_block()?;
        self.file.sync_all()?;
        (self.progress)(self.items);
        let version = match (self.archives.is_empty(), self.tables.is_empty()) {
            (false, _) => WITH_SAMPLES,
            (true, false) => WITH_TABLES,
            (true, true) => FIRST_VERSION,
        };
        let meta = Meta {
            version,
            items: self.items,
            repeated: self.repeated,
            inputs: wanted.inputs.to_vec(),
            base: escape::escape(wanted.base.as_os_str().as_bytes()),
            values: wanted.decode == Some(Decode::Value),
            list: Sealed::of(&self.entries, self.written),
            origins: self.origins,
            archives: self.archives,
            lacking: self.lacking,
            tables: self.tables,
        };
        Ok((meta, self.entries))
    }
}

impl Taker for Freezer<'_> {
    fn item(&mut self, found: Found<'_>) -> io::Result<()> {
        self.origin.items += 1;
        let last = |count: usize| u32::try_from(count.saturating_sub(1)).map_err(io::Error::other);
        let (archive, table) = (last(self.archives.len())?, last(self.tables.len())?);
        self.line.clear();
        if let Found::Member { .. } | Found::BadMember { .. } | Found::BrokenShard { .. } = found {
            found.write(&mut self.line, 0);
            self.archive_digest.update(&self.line);
            if let Some(archive) = self.archives.last_mut() {
                archive.items += 1;
            }
            self.line.clear();
            found.write(&mut self.line, archive);
        } else {
            found.write(&mut self.line, 0);
            self.digest.update(&self.line);
        }
        if let Found::Row { .. } = found {
            self.line.clear();
            found.write(&mut self.line, table);
        }
        if self.is_repeated(&found) {
            self.repeated += 1;
            return Ok(());
        }
        self.block.extend_from_slice(&self.line);
        self.items += 1;
        self.lacking.note(&found);
        if self.items.is_multiple_of(BLOCK) {
            self.flush_block()?;
        }
        if self.items.is_multiple_of(WORD) && !(self.progress)(self.items) {
            self.enough = true;
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(())
    }

    fn shard(&mut self, shard: Stamp) -> io::Result<bool> {
        self.close_archive();
        self.digest.update(shard.path.as_bytes());
        self.digest.update(b"\n");
        self.archives.push(Archive { stamp: shard, items: 0, digest: None });
        Ok(true)
    }

    fn reading(&mut self, file: Stamp) {
        self.origin.files.push(file);
    }

    fn table(&mut self, table: DataTable) {
        self.tables.push(table);
    }
}
