//! One sample of a tar, member by member, from where it begins to where another key follows.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use gpulane_items::{Head, Next, Unpacked, extension, next_head, sample_key};
use gpulane_model::Members;

use super::super::heavy::{Heavy, LIGHT, Load};
use super::{HeldData, KEPT, Part, SHOWN, Sample};

/// Bytes of a block of a tar.
const BLOCK: u64 = 512;
/// What of a plain tar is read at once while headers are looked for.
const WINDOW: usize = 4 << 10;
/// Members that nobody asked for and that are held for a next item.
const MOST_OTHERS: usize = 1024;

/// What a member's data are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Use {
    /// The item itself.
    Own,
    /// A member that goes with the item.
    Asked,
    /// Perhaps the next item.
    Perhaps,
    /// Nothing.
    Passed,
}

/// A tar that is read from the beginning of a sample on.
pub(in super::super) trait Tar {
    /// What begins at this byte, which lies behind all that was read of members.
    fn next(&mut self, at: u64) -> io::Result<Next>;
    /// Takes back the headers that `next` read last: others begin with them.
    fn give_back(&mut self);
    /// Goes over a member's data; gives them where they are held. An error: they are not all there.
    fn data(&mut self, offset: u64, bytes: u64, used: Use) -> io::Result<Option<HeldData>>;
}

/// The item whose sample is read: where its data are, and what of the sample is asked for.
struct Walk<'w> {
    item: u64,
    asked: &'w Members,
    sample: Sample,
    key: Option<Vec<u8>>,
    own: Option<HeldData>,
    /// The item has been met.
    met: bool,
}

/// Reads the sample that begins at `sample.start`. Gives it with the item's own data, where those are held; or why not, for a person.
pub(in super::super) fn walk(
    tar: &mut dyn Tar,
    item: u64,
    asked: &Members,
    sample: Sample,
) -> Result<(Sample, Option<HeldData>), String> {
    let mut at = sample.start;
    let mut walk = Walk { item, asked, sample, key: None, own: None, met: false };
    loop {
        match tar.next(at) {
            Ok(Next::Other { end }) => at = end.next_multiple_of(BLOCK),
            Ok(Next::Member(head)) => {
                let end = head.end;
                if !walk.is_of_sample(&head) {
                    tar.give_back();
                    break;
                }
                if !walk.take(tar, &head)? {
                    break;
                }
                at = end.next_multiple_of(BLOCK);
            }
            Ok(Next::End { marked }) => {
                if !marked {
                    walk.sample.lost = Some("it ends without the end-of-archive mark".to_owned());
                }
                break;
            }
            Err(error) => {
                walk.sample.lost = Some(words(&error));
                break;
            }
        }
    }
    if !walk.met {
        let lost = walk.sample.lost.map_or_else(String::new, |lost| format!(": {lost}"));
        return Err(format!("is not where it was when it was listed; its tar has changed{lost}"));
    }
    Ok((walk.sample, walk.own))
}

impl Walk<'_> {
    /// Whether a member belongs to what is read. Before the item is met, another key begins another sample.
    fn is_of_sample(&mut self, head: &Head) -> bool {
        let key = sample_key(&head.name);
        if self.key.as_deref() != Some(key) {
            if self.met {
                return false;
            }
            self.sample.clear();
            self.key = Some(key.to_owned());
        }
        true
    }

    /// Takes a member; whether what follows can be read.
    fn take(&mut self, tar: &mut dyn Tar, head: &Head) -> Result<bool, String> {
        let wanted = extension(&head.name).filter(|extension| self.asked.takes(extension));
        let (offset, bytes) = match &head.place {
            Ok(place) => *place,
            Err(reason) => {
                self.add(wanted, &head.name, (u64::MAX, 0), None, Some(reason.clone()));
                let stored = tar.data(head.end, 0, Use::Passed);
                return Ok(stored.map_err(|error| self.sample.lost = Some(words(&error))).is_ok());
            }
        };
        let own = offset == self.item;
        self.met |= own;
        let used = match (&wanted, own) {
            (_, true) => Use::Own,
            (Some(_), false) => Use::Asked,
            (None, false) if self.met => Use::Perhaps,
            (None, false) => Use::Passed,
        };
        match tar.data(offset, bytes, used) {
            Ok(data) => {
                if own {
                    self.own.clone_from(&data);
                }
                match (&wanted, data) {
                    (None, Some(data)) if !own => self.sample.others.push((offset, data)),
                    (_, data) => self.add(wanted, &head.name, (offset, bytes), data, None),
                }
                Ok(true)
            }
            Err(error) if own => Err(words(&error)),
            Err(error) => {
                let why = words(&error);
                self.add(wanted, &head.name, (offset, bytes), None, Some(format!("is cut short: {why}")));
                self.sample.lost = Some(why);
                Ok(false)
            }
        }
    }

    /// Notes a member if it is asked for.
    fn add(
        &mut self,
        wanted: Option<String>,
        name: &[u8],
        (offset, bytes): (u64, u64),
        data: Option<HeldData>,
        wrong: Option<String>,
    ) {
        let Some(extension) = wanted else { return };
        let name = String::from_utf8_lossy(name).chars().take(SHOWN).collect();
        self.sample.add(Part { extension, name, offset, bytes, data, wrong });
    }
}

/// What went wrong, for a person.
fn words(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof && error.get_ref().is_none() {
        return "its tar ends there".to_owned();
    }
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).take(SHOWN).collect()
}

/// A plain tar: nothing but headers is read.
pub(in super::super) struct InPlace<'f> {
    file: &'f File,
    length: u64,
    /// The bytes from `from` on, as many as there are.
    window: Vec<u8>,
    from: u64,
}

impl<'f> InPlace<'f> {
    pub(in super::super) const fn new(file: &'f File, length: u64) -> Self {
        Self { file, length, window: Vec::new(), from: 0 }
    }
}

/// Reads on from a byte of a plain tar.
struct At<'a, 'f> {
    tar: &'a mut InPlace<'f>,
    at: u64,
}

impl Read for At<'_, '_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let tar = &mut *self.tar;
        let within = |tar: &InPlace<'_>, at: u64| {
            usize::try_from(at.checked_sub(tar.from)?).ok().filter(|skipped| *skipped < tar.window.len())
        };
        if within(tar, self.at).is_none() {
            tar.window.resize(WINDOW, 0);
            tar.from = self.at;
            let read = tar.file.read_at(&mut tar.window, self.at);
            tar.window.truncate(*read.as_ref().unwrap_or(&0));
            read?;
        }
        let Some(skipped) = within(tar, self.at) else { return Ok(0) };
        let some = (tar.window.len() - skipped).min(to.len());
        to[..some].copy_from_slice(&tar.window[skipped..skipped + some]);
        self.at += some as u64;
        Ok(some)
    }
}

impl Tar for InPlace<'_> {
    fn next(&mut self, at: u64) -> io::Result<Next> {
        next_head(At { tar: self, at }, at)
    }

    fn give_back(&mut self) {}

    fn data(&mut self, offset: u64, bytes: u64, _: Use) -> io::Result<Option<HeldData>> {
        let whole = offset.checked_add(bytes).is_some_and(|end| end <= self.length);
        if whole { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// A compressed tar: data that are asked for are held while there is memory for them.
pub(in super::super) struct Packed<'c, 'h> {
    contents: &'c mut Unpacked,
    /// What was read since the last member ended.
    noted: Vec<u8>,
    /// Bounds what large items and their members take together.
    large: &'h Heavy,
    /// This sample's part of it, once it is not light any more.
    load: Option<Load<'h>>,
    /// What the members may take, and what they do.
    most: u64,
    asked: u64,
    /// What those take that may be the next item, and how many they are.
    perhaps: (u64, usize),
    /// All that is held.
    held: u64,
    /// What may be held at most.
    worst: u64,
}

impl<'c, 'h> Packed<'c, 'h> {
    /// Members may take `most` bytes, beside an item of `own`.
    pub(in super::super) const fn new(
        contents: &'c mut Unpacked,
        large: &'h Heavy,
        own: u64,
        most: u64,
    ) -> Self {
        let worst = own.saturating_add(most).saturating_add(KEPT);
        Self {
            contents,
            noted: Vec::new(),
            large,
            load: None,
            most,
            asked: 0,
            perhaps: (0, 0),
            held: 0,
            worst,
        }
    }

    /// The part of the memory of large items that it took.
    pub(in super::super) fn into_load(self) -> Option<Load<'h>> {
        self.load
    }

    /// Whether a member's data are held.
    fn holds(&mut self, bytes: u64, used: Use) -> bool {
        match used {
            Use::Own => true,
            Use::Asked => {
                self.asked = self.asked.saturating_add(bytes);
                self.asked <= self.most
            }
            Use::Perhaps => {
                let (all, count) = self.perhaps;
                let fits = all.saturating_add(bytes) <= KEPT && count < MOST_OTHERS;
                if fits {
                    self.perhaps = (all + bytes, count + 1);
                }
                fits
            }
            Use::Passed => false,
        }
    }
}

/// Reads on, and notes what it reads.
struct Noting<'a> {
    from: &'a mut Unpacked,
    noted: &'a mut Vec<u8>,
}

impl Read for Noting<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(to)?;
        self.noted.extend_from_slice(&to[..read]);
        Ok(read)
    }
}

impl Tar for Packed<'_, '_> {
    fn next(&mut self, at: u64) -> io::Result<Next> {
        self.noted.clear();
        match self.contents.skip_to(at) {
            // Cut within the padding of a member that is whole.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !self.contents.has_failed() => {
                return Ok(Next::End { marked: false });
            }
            passed => passed?,
        }
        next_head(Noting { from: self.contents, noted: &mut self.noted }, at)
    }

    fn give_back(&mut self) {
        self.contents.unread(&self.noted);
        self.noted.clear();
    }

    fn data(&mut self, offset: u64, bytes: u64, used: Use) -> io::Result<Option<HeldData>> {
        if !self.holds(bytes, used) {
            return self.contents.skip_to(offset.saturating_add(bytes)).map(|()| None);
        }
        self.held = self.held.saturating_add(bytes);
        if self.held > LIGHT && self.load.is_none() {
            self.load = self.large.take(self.worst);
        }
        self.contents.skip_to(offset)?;
        let mut data = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        self.contents.read_exact(&mut data)?;
        Ok(Some(Arc::new(data)))
    }
}
