//! gzip, xz and zstd as streams, each counted against the budget of its container.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use super::Budget;

/// Largest dictionary or window that a stream may ask for: that of `xz -9` and `zstd --ultra --long=27` fit.
const MOST_WINDOW: u64 = 192 << 20;

/// True for the formats that [`decoder`] unpacks, and for bzip2, which it refuses by name.
pub fn is_compressed(head: &[u8]) -> bool {
    [&b"\x1f\x8b"[..], b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"BZh"].iter().any(|magic| head.starts_with(magic))
}

/// Unpacks a stream, or passes it on as it is.
pub(super) fn decoder<'a>(input: Box<dyn Read + 'a>, budget: &'a Budget) -> io::Result<Box<dyn Read + 'a>> {
    let taken = Rc::new(Cell::new(0));
    let mut input = Ahead::new(Box::new(Counted { inner: input, count: taken.clone() }) as Box<dyn Read + 'a>);
    let head = input.peek(6)?.to_vec();
    let inner: Box<dyn Read + 'a> = match () {
        () if head.starts_with(b"\x1f\x8b") => Box::new(flate2::read::MultiGzDecoder::new(input)),
        () if head.starts_with(b"\xfd7zXZ\0") => Box::new(lzma_rust2::XzReader::new_mem_limit(input, true, (MOST_WINDOW >> 10) as u32)),
        () if head.starts_with(b"\x28\xb5\x2f\xfd") => Box::new(Zstd { state: State::Between(input) }),
        () if head.starts_with(b"BZh") => return Err(io::Error::other("is compressed with bzip2, which is not read here: unpack it first")),
        () => return Ok(Box::new(input)),
    };
    Ok(Box::new(Metered { inner, taken, given: 0, budget }))
}

/// Counts the bytes that pass.
pub(super) struct Counted<R> {
    pub inner: R,
    pub count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

/// Stops a stream that unpacks to too much.
struct Metered<'a> {
    inner: Box<dyn Read + 'a>,
    taken: Rc<Cell<u64>>,
    given: u64,
    budget: &'a Budget,
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.given += count as u64;
        self.budget.unpack(count as u64, self.taken.get(), self.given)?;
        Ok(count)
    }
}

/// A stream whose next few bytes can be looked at.
struct Ahead<R> {
    held: Vec<u8>,
    inner: R,
}

impl<R: Read> Ahead<R> {
    fn new(inner: R) -> Self {
        Self { held: Vec::new(), inner }
    }

    /// Up to `count` bytes without taking them; fewer at the end.
    fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        let missing = count.saturating_sub(self.held.len()) as u64;
        (&mut self.inner).take(missing).read_to_end(&mut self.held)?;
        Ok(&self.held)
    }
}

impl<R: Read> Read for Ahead<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.held.is_empty() {
            return self.inner.read(buffer);
        }
        let count = buffer.len().min(self.held.len());
        buffer[..count].copy_from_slice(&self.held[..count]);
        self.held.drain(..count);
        Ok(count)
    }
}

type Input<'a> = Ahead<Box<dyn Read + 'a>>;

/// Frames of zstd one after the other, skippable ones passed over.
struct Zstd<'a> {
    state: State<'a>,
}

enum State<'a> {
    Between(Input<'a>),
    Frame(Box<ruzstd::decoding::StreamingDecoder<Input<'a>, ruzstd::decoding::FrameDecoder>>),
    Done,
}

impl Read for Zstd<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return Ok(0),
                State::Between(mut input) => {
                    let head = input.peek(8)?.to_vec();
                    if head.is_empty() {
                        return Ok(0);
                    }
                    if head.len() == 8 && head[1..4] == [0x2a, 0x4d, 0x18] && head[0] & 0xf0 == 0x50 {
                        let skip = 8 + u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
                        if io::copy(&mut (&mut input).take(skip), &mut io::sink())? < skip {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                        self.state = State::Between(input);
                        continue;
                    }
                    let decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(input, MOST_WINDOW);
                    self.state = State::Frame(Box::new(decoder.map_err(|error| io::Error::other(error.to_string()))?));
                }
                State::Frame(mut frame) => {
                    let count = frame.read(buffer)?;
                    self.state = if count == 0 { State::Between(frame.into_inner()) } else { State::Frame(frame) };
                    if count > 0 {
                        return Ok(count);
                    }
                }
            }
        }
    }
}
