//! TIFF: the first page as an image, or all pages of one shape as a stack.
//!
//! The container is read here, where it lies: directories, strips, tiles, planes, what samples mean. Compressions are those of
//! well-kept crates, but for LZW and `PackBits`. [Decision 17](../../../../docs/decisions/0017-tiff.md).

mod compression;
mod directory;
mod grid;
mod page;
mod palette;
mod pixels;
mod predictor;
mod read;
mod reasons;
mod unpack;
mod ycbcr;

use crate::damage::Damage;
use crate::still::Still;
use crate::{Form, Kind, Limits, Rejection};

use directory::File;
use page::{Likeness, Page};
use read::Outcome;
use reasons::broken;

/// Several pages of one channel, one shape and one element.
pub(crate) struct Stack<'a> {
    file: File<'a>,
    /// Where the first page's directory is.
    first: u64,
    /// How many pages there are.
    pages: u32,
    /// What each of them is.
    like: Likeness,
    /// Bytes that reading any of them takes.
    memory: u64,
    /// What one item may cost.
    limits: Limits,
}

/// The first page. `keep`: samples of one channel keep all their bits.
pub(crate) fn first_page<'a>(encoded: &'a [u8], keep: bool, limits: &Limits) -> Result<Still<'a>, Rejection> {
    let (file, first) = File::open(encoded)?;
    let directory = file.directory(first)?;
    let page = Page::of(&directory, keep, limits)?;
    let (sides, layout, orientation) = (page.sides, page.pixels.layout, page::orientation(&directory));
    let (memory, limits) = (page.memory(limits), *limits);
    let read = move |target: &mut [u8]| read::read(&page, &limits, target)?.judged();
    Ok(Still { sides, layout, orientation, memory, read: Box::new(read) })
}

/// All pages, if there are several, all alike, in one channel and upright; otherwise nothing.
pub(crate) fn stack<'a>(encoded: &'a [u8], limits: &Limits) -> Result<Option<Stack<'a>>, Rejection> {
    let (file, first) = File::open(encoded)?;
    let directory = file.directory(first)?;
    let page = Page::of(&directory, true, limits)?;
    if directory.next == 0 || page.pixels.layout.samples() != 1 || page::orientation(&directory) != 1 {
        return Ok(None);
    }
    let (like, mut memory) = (page.likeness(), page.memory(limits));
    let (mut pages, mut at, mut toil) = (1_u32, directory.next, page.toil);
    // Brent's way to notice a circle without remembering all that was seen.
    let (mut seen, mut until) = (first, 2_u32);
    while at != 0 {
        if at == seen {
            return Err(broken("its pages go round in a circle"));
        }
        let directory = file.directory(at)?;
        let page = Page::of(&directory, true, limits)?;
        if page.likeness() != like {
            return Ok(None);
        }
        // Directories may lie on each other, and their values and strips as well.
        toil = toil.saturating_add(page.toil);
        page::check_toil(toil, encoded.len())?;
        memory = memory.max(page.memory(limits));
        pages = pages.checked_add(1).ok_or_else(|| broken("more pages than can be counted"))?;
        if pages == until {
            (seen, until) = (at, until.saturating_mul(2));
        }
        at = directory.next;
    }
    Ok(Some(Stack { file, first, pages, like, memory, limits: *limits }))
}

impl Stack<'_> {
    /// Width and height of each page.
    pub(crate) const fn sides(&self) -> (u32, u32) {
        self.like.sides
    }

    /// Bytes that reading takes beside the place.
    pub(crate) const fn memory(&self) -> u64 {
        self.memory
    }

    /// Bytes of one page.
    const fn page_bytes(&self) -> usize {
        let (width, height) = self.like.sides;
        width as usize * height as usize * self.like.layout.pixel_bytes()
    }

    /// Pages × height × width.
    pub(crate) fn form(&self) -> Form {
        let (width, height) = self.like.sides;
        let bytes = u64::from(self.pages) * self.page_bytes() as u64;
        let dims = [self.pages, height, width, 0];
        Form {
            kind: Kind::Array,
            element: self.like.layout.element,
            orientation: 1,
            chroma: 0,
            dims,
            ndim: 3,
            bytes,
            damaged: false,
        }
    }

    /// Reads page after page into `target`, which has room for all.
    pub(crate) fn read(&mut self, target: &mut [u8]) -> Result<Damage, Rejection> {
        let (mut at, mut all) = (self.first, Outcome::default());
        for room in target.chunks_exact_mut(self.page_bytes()) {
            let directory = self.file.directory(at)?;
            all.add(read::read(&Page::of(&directory, true, &self.limits)?, &self.limits, room)?);
            at = directory.next;
        }
        all.judged()
    }
}
