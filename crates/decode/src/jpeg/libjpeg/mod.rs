//! libjpeg-turbo, for one file: its header, its pixels or planes, and everything it had to say meanwhile.
//!
//! The one room where C is called. Each call says why it may; what comes out is plain data that others judge.
#![allow(unsafe_code)] // calls of C

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use turbojpeg_sys as raw;

use super::MOST_SCANS;

/// What a warning is about, in the order of `watch.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Kind {
    /// A revision, parameters that are not used, a colour profile: nothing that pixels come from.
    Other,
    /// A transform of colours that Adobe has not defined; libjpeg takes the usual one.
    Colours,
    /// Coefficients came before the first ones of their blocks.
    Order,
    /// Bits of coefficients were left out, or came twice.
    Precision,
    /// A code that does not exist.
    BadCode,
    /// A stretch of image data ended before its units.
    Missing,
    /// A restart is not there, or is another one.
    Restart,
    /// Bytes between two markers of the header.
    HeaderJunk,
    /// Bytes before a marker behind the header.
    ScanJunk,
    /// The file ended before its mark for the end.
    End,
}

/// How many kinds there are.
const KINDS: usize = 10;

impl Kind {
    /// Every one, in their order.
    pub(super) const ALL: [Self; KINDS] = [
        Self::Other,
        Self::Colours,
        Self::Order,
        Self::Precision,
        Self::BadCode,
        Self::Missing,
        Self::Restart,
        Self::HeaderJunk,
        Self::ScanJunk,
        Self::End,
    ];
}

/// What stands unread between a scan and the marker behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Leftover {
    /// Bytes, without stuffing.
    pub(super) bytes: c_uint,
    /// Bits of the last byte that was begun.
    pub(super) bits: c_uint,
    /// What these bits are.
    pub(super) padding: c_uint,
    /// Where in the file they end, if the end of the image follows; otherwise 0.
    pub(super) end: usize,
}

/// What libjpeg-turbo is asked for the messages of one file; as `watch.c` has it.
#[derive(Debug)]
#[repr(C)]
struct Watch {
    emit: *const c_void,
    leave: *const c_void,
    data: *const u8,
    size: usize,
    scan: c_int,
    discarded: c_uint,
    scanned: c_uint,
    counts: [c_uint; KINDS],
    unfinished: c_uint,
    last: Leftover,
    complete: c_int,
    lacking: c_uint,
    arithmetic: c_int,
    fatal: c_int,
}

// SAFETY: as `watch.c` beside this defines them, which is built with this crate.
unsafe extern "C" {
    fn gpulane_watch_begin(handle: *mut c_void, watch: *mut Watch, data: *const u8, size: usize) -> c_int;
    fn gpulane_watch_again(watch: *mut Watch);
    fn gpulane_watch_rows(handle: *const c_void) -> c_int;
    fn gpulane_watch_size() -> usize;
}

/// Everything that was said while a file was decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// Warnings by kind.
    counts: [c_uint; KINDS],
    /// Stretches of image data before the last that were longer than their units.
    pub(super) unfinished: u32,
    /// What the last scan left.
    pub(super) last: Leftover,
    /// At the end, all that the picture is made of had come.
    pub(super) complete: bool,
    /// Components that had no image data at the end.
    pub(super) lacking: u32,
    /// The codes are arithmetic: what is missing of them makes no warning.
    pub(super) arithmetic: bool,
    /// What ended reading behind the image data, when every row had been put out.
    pub(super) stopped: bool,
}

impl Said {
    /// How many warnings of a kind there were.
    pub(super) const fn count(&self, kind: Kind) -> u32 {
        self.counts[kind as usize]
    }

    /// Whether nothing was out of the ordinary.
    pub(super) fn is_nothing(&self) -> bool {
        self.counts == [0; KINDS]
            && self.unfinished == 0
            && self.last.bytes == 0
            && self.lacking == 0
            && !self.stopped
    }
}

/// What the components of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    /// One component.
    Gray,
    /// Luma and two chromas.
    YCbCr,
    /// As it says.
    Rgb,
    /// Four inks.
    Ink,
}

/// How the chroma is subsampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampling {
    /// 4:4:4.
    Full,
    /// 4:2:2.
    HalfAcross,
    /// 4:2:0.
    Quarter,
    /// 4:4:0.
    HalfDown,
    /// Luma alone.
    Gray,
    /// Any other.
    Other,
}

/// What pixels are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pixel {
    Rgb,
    /// With an alpha of 255.
    Rgba,
    Gray,
    Cmyk,
}

/// What the header says, as libjpeg-turbo reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) sampling: Sampling,
    pub(super) colours: Colours,
    /// Something in the header was out of the ordinary.
    pub(super) odd: bool,
}

/// A handle for one file: what libjpeg-turbo keeps from file to file would become part of the next. Costs a fifth of a microsecond.
pub(super) struct Handle<'e> {
    raw: NonNull<c_void>,
    /// Behind a pointer of its own: C has it as long as the handle lives.
    watch: NonNull<Watch>,
    encoded: &'e [u8],
    seen: Option<Seen>,
    owns: PhantomData<Watch>,
}

impl<'e> Handle<'e> {
    pub(super) fn new(encoded: &'e [u8]) -> Result<Self, String> {
        // SAFETY: no arguments but a number that the library knows.
        let raw = unsafe { raw::tj3Init(raw::TJINIT_TJINIT_DECOMPRESS.cast_signed()) };
        let raw = NonNull::new(raw).ok_or("no memory for libjpeg-turbo")?;
        let watch = Box::new(Watch {
            emit: std::ptr::null(),
            leave: std::ptr::null(),
            data: encoded.as_ptr(),
            size: encoded.len(),
            scan: 0,
            discarded: 0,
            scanned: 0,
            counts: [0; KINDS],
            unfinished: 0,
            last: Leftover::default(),
            complete: 0,
            lacking: 0,
            arithmetic: 0,
            fatal: 0,
        });
        let watch = NonNull::from(Box::leak(watch));
        let handle = Self { raw, watch, encoded, seen: None, owns: PhantomData };
        // SAFETY: takes nothing and touches nothing.
        let same = unsafe { gpulane_watch_size() } == size_of::<Watch>();
        // SAFETY: the handle is fresh, and both the watch and the file outlive it: this struct drops them in that order.
        let watched = same
            && unsafe {
                gpulane_watch_begin(raw.as_ptr(), watch.as_ptr(), encoded.as_ptr(), encoded.len()) != 0
            };
        if !watched {
            return Err("this libjpeg-turbo is not the one gpulane was made for".to_owned());
        }
        handle.set(raw::TJPARAM_TJPARAM_SCANLIMIT, MOST_SCANS.cast_signed())?;
        // Profiles are not asked for, and a broken one does no harm.
        handle.set(raw::TJPARAM_TJPARAM_SAVEMARKERS, 0)?;
        Ok(handle)
    }

    fn set(&self, parameter: raw::TJPARAM, value: c_int) -> Result<(), String> {
        // SAFETY: the handle lives.
        let done = unsafe { raw::tj3Set(self.raw.as_ptr(), parameter.cast_signed(), value) };
        if done == 0 { Ok(()) } else { Err(self.error()) }
    }

    fn get(&self, parameter: raw::TJPARAM) -> c_int {
        // SAFETY: the handle lives.
        unsafe { raw::tj3Get(self.raw.as_ptr(), parameter.cast_signed()) }
    }

    fn error(&self) -> String {
        // SAFETY: the handle lives; the text is its own, ends with zero and is copied at once.
        unsafe { CStr::from_ptr(raw::tj3GetErrorStr(self.raw.as_ptr())) }.to_string_lossy().into_owned()
    }

    fn watch(&self) -> &Watch {
        // SAFETY: made in `new`, freed in `drop`; C writes to it only within calls that have this handle mutably.
        unsafe { self.watch.as_ref() }
    }

    /// Whether the last call, which returned `code`, came to its end: warnings do not count.
    fn came_through(&self, code: c_int) -> bool {
        // SAFETY: the handle lives.
        let warned =
            || unsafe { raw::tj3GetErrorCode(self.raw.as_ptr()) } == raw::TJERR_TJERR_WARNING.cast_signed();
        self.watch().fatal == 0 && (code == 0 || warned())
    }

    /// Reads the header.
    pub(super) fn header(&mut self) -> Result<Seen, String> {
        // SAFETY: the handle lives, and the slice says how long it is.
        let code = unsafe {
            raw::tj3DecompressHeader(
                self.raw.as_ptr(),
                self.encoded.as_ptr(),
                self.encoded.len() as raw::size_t,
            )
        };
        if !self.came_through(code) {
            return Err(self.error());
        }
        let side = |parameter| usize::try_from(self.get(parameter)).unwrap_or(0);
        let colours = match self.get(raw::TJPARAM_TJPARAM_COLORSPACE).cast_unsigned() {
            raw::TJCS_TJCS_RGB => Colours::Rgb,
            raw::TJCS_TJCS_YCbCr => Colours::YCbCr,
            raw::TJCS_TJCS_GRAY => Colours::Gray,
            _ => Colours::Ink,
        };
        let sampling = match self.get(raw::TJPARAM_TJPARAM_SUBSAMP) {
            raw::TJSAMP_TJSAMP_444 => Sampling::Full,
            raw::TJSAMP_TJSAMP_422 => Sampling::HalfAcross,
            raw::TJSAMP_TJSAMP_420 => Sampling::Quarter,
            raw::TJSAMP_TJSAMP_440 => Sampling::HalfDown,
            raw::TJSAMP_TJSAMP_GRAY => Sampling::Gray,
            _ => Sampling::Other,
        };
        let seen = Seen {
            width: side(raw::TJPARAM_TJPARAM_JPEGWIDTH),
            height: side(raw::TJPARAM_TJPARAM_JPEGHEIGHT),
            sampling,
            colours,
            odd: self.watch().counts != [0; KINDS],
        };
        self.seen = Some(seen);
        Ok(seen)
    }

    /// Decodes to pixels, row behind row, so many times smaller. `target` has exactly the bytes they need.
    pub(super) fn pixels(&mut self, by: usize, pixel: Pixel, target: &mut [u8]) -> Result<Said, String> {
        let (format, bytes) = match pixel {
            Pixel::Rgb => (raw::TJPF_TJPF_RGB, 3),
            Pixel::Rgba => (raw::TJPF_TJPF_RGBA, 4),
            Pixel::Gray => (raw::TJPF_TJPF_GRAY, 1),
            Pixel::Cmyk => (raw::TJPF_TJPF_CMYK, 4),
        };
        let (width, height) = self.begin(by)?;
        let pitch = width * bytes;
        if target.len() < pitch * height {
            return Err("no room for its pixels".to_owned());
        }
        let pitch = c_int::try_from(pitch).map_err(|_| "a row of it is too long")?;
        let size = self.encoded.len() as raw::size_t;
        // SAFETY: the handle lives; the header was read from this very slice, so that rows are as long and as many as there is room for.
        let code = unsafe {
            raw::tj3Decompress8(
                self.raw.as_ptr(),
                self.encoded.as_ptr(),
                size,
                target.as_mut_ptr(),
                pitch,
                format,
            )
        };
        self.ended(code)
    }

    /// Decodes to planes, so many times smaller, one behind the other and row behind row. `target` has exactly the bytes they need.
    pub(super) fn planes(&mut self, by: usize, target: &mut [u8]) -> Result<Said, String> {
        let (width, height) = self.begin(by)?;
        let side = |length: usize| c_int::try_from(length).map_err(|_| "it is too large");
        let subsamp = self.get(raw::TJPARAM_TJPARAM_SUBSAMP);
        // SAFETY: numbers alone.
        let bytes = unsafe { raw::tj3YUVBufSize(side(width)?, 1, side(height)?, subsamp) };
        if bytes == 0 || bytes > target.len() as u64 {
            return Err("no room for its planes".to_owned());
        }
        let size = self.encoded.len() as raw::size_t;
        // SAFETY: the handle lives; there is room for what the library itself says it takes for a file with this header.
        let code = unsafe {
            raw::tj3DecompressToYUV8(self.raw.as_ptr(), self.encoded.as_ptr(), size, target.as_mut_ptr(), 1)
        };
        self.ended(code)
    }

    /// Sets the size, counts anew, and gives the sides it will have.
    fn begin(&mut self, by: usize) -> Result<(usize, usize), String> {
        let seen = self.seen.ok_or("its header was not read")?;
        let denom = c_int::try_from(by).unwrap_or(1);
        // SAFETY: the handle lives.
        let set =
            unsafe { raw::tj3SetScalingFactor(self.raw.as_ptr(), raw::tjscalingfactor { num: 1, denom }) };
        if set != 0 {
            return Err(self.error());
        }
        // SAFETY: the watch lives, and nobody else has it.
        unsafe { gpulane_watch_again(self.watch.as_ptr()) };
        Ok((seen.width.div_ceil(by), seen.height.div_ceil(by)))
    }

    /// What was said, or what ended it before all rows were there.
    fn ended(&self, code: c_int) -> Result<Said, String> {
        let watch = self.watch();
        let stopped = !self.came_through(code);
        // SAFETY: the handle lives.
        if stopped && (watch.fatal == 0 || unsafe { gpulane_watch_rows(self.raw.as_ptr()) } == 0) {
            return Err(self.error());
        }
        Ok(Said {
            counts: watch.counts,
            unfinished: watch.unfinished,
            last: watch.last,
            complete: watch.complete != 0,
            lacking: watch.lacking,
            arithmetic: watch.arithmetic != 0,
            stopped,
        })
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and gone with this; the library first, which has a pointer to the watch.
        unsafe {
            raw::tj3Destroy(self.raw.as_ptr());
            drop(Box::from_raw(self.watch.as_ptr()));
        }
    }
}
