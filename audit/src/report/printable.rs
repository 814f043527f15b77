//! Names in files are anybody's text. A control character in one would move the cursor, colour what follows or hide a line of the report.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Longest sequence that our own colours take.
const COLOUR: usize = 8;

/// Text on one line: control characters, ends of lines among them, as their numbers.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if letter.is_control() {
            let _ = write!(line, "{}", letter.escape_unicode());
        } else {
            line.push(letter);
        }
    }
    Cow::Owned(line)
}

/// Writes control characters as their numbers, but for ends of lines, tabs and, where there are any, our own colours.
pub struct Printable<W: Write> {
    out: W,
    colour: bool,
    /// The beginning of what cannot be judged yet.
    held: Vec<u8>,
}

impl<W: Write> Printable<W> {
    /// Over a stream that shows bytes as they come.
    pub fn new(out: W, colour: bool) -> Self {
        Self { out, colour, held: Vec::new() }
    }

    fn escaped(&self, bytes: &[u8]) -> Vec<u8> {
        let (mut text, mut rest) = (Vec::with_capacity(bytes.len() + 64), bytes);
        while let [first, after @ ..] = rest {
            let own = if self.colour { colour(rest) } else { None };
            let (odd, taken) = match (first, after) {
                (0xc2, [second @ 0x80..=0x9f, ..]) => (Some(second), 2),
                (byte, _) if own.is_none() && byte.is_ascii_control() && !b"\n\t".contains(byte) => (Some(byte), 1),
                _ => (None, own.unwrap_or(1)),
            };
            match odd {
                Some(number) => text.extend(format!("\\u{{{number:x}}}").bytes()),
                None => text.extend(&rest[..taken]),
            }
            rest = &rest[taken..];
        }
        text
    }

    /// How many of these bytes can be judged without what follows.
    fn whole(&self, bytes: &[u8]) -> usize {
        let from = bytes.len().saturating_sub(COLOUR);
        let open = |at: usize| match bytes[at] {
            0xc2 => at + 1 == bytes.len(),
            0x1b => self.colour && bytes[at + 1..].iter().all(|byte| byte.is_ascii_digit() || b"[;".contains(byte)),
            _ => false,
        };
        (from..bytes.len()).find(|&at| open(at)).unwrap_or(bytes.len())
    }
}

/// Length of a colour at the start, as [`super::text`] writes them.
fn colour(bytes: &[u8]) -> Option<usize> {
    let numbers = bytes.strip_prefix(b"\x1b[")?;
    let end = numbers.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b';'))?;
    (numbers[end] == b'm' && end + 3 <= COLOUR).then_some(end + 3)
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A fold has no way out and goes over many bytes at once.
        let odd = |byte: u8| (byte < b' ' && byte != b'\n' && byte != b'\t') || byte == 0x7f || byte == 0xc2;
        if self.held.is_empty() && !bytes.iter().fold(false, |found, &byte| found | odd(byte)) {
            self.out.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend(bytes);
        self.held = all.split_off(self.whole(&all));
        self.out.write_all(&self.escaped(&all))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.out.write_all(&self.escaped(&held))?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{Printable, one_line};

    fn shown(pieces: &[&str], colour: bool) -> String {
        let mut out = Vec::new();
        let mut printable = Printable::new(&mut out, colour);
        for piece in pieces {
            printable.write_all(piece.as_bytes()).expect("memory");
        }
        printable.flush().expect("memory");
        drop(printable);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn control_characters_are_shown_and_nothing_else_changes() {
        let text = "é·✓\ta\n";
        assert_eq!(shown(&[text], false), text);
        assert_eq!(shown(&["a\x1b[2Jb\x07\r\x7f\u{9b}31m"], true), "a\\u{1b}[2Jb\\u{7}\\u{d}\\u{7f}\\u{9b}31m");
        assert_eq!(shown(&["\x1b[31;1mx\x1b[0m"], true), "\x1b[31;1mx\x1b[0m");
        assert_eq!(shown(&["\x1b[31mx"], false), "\\u{1b}[31mx", "no colour of ours is there");
    }

    #[test]
    fn what_falls_into_two_pieces_is_the_same() {
        let text = "é·a\x1b[31;1mx\x1b[0m\u{9b}y\x1b[2J\x1b[999999999mz\x1b[3";
        let whole = shown(&[text], true);
        for at in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
            assert_eq!(shown(&[&text[..at], &text[at..]], true), whole, "{at}");
        }
        let bytes: Vec<u8> = text.bytes().collect();
        let mut out = Vec::new();
        let mut printable = Printable::new(&mut out, true);
        bytes.chunks(1).for_each(|byte| printable.write_all(byte).expect("memory"));
        printable.flush().expect("memory");
        drop(printable);
        assert_eq!(String::from_utf8(out).expect("text"), whole);
    }

    #[test]
    fn a_line_stays_one() {
        assert_eq!(one_line("a\nPASS\x1b[0m"), "a\\u{a}PASS\\u{1b}[0m");
        assert_eq!(one_line("é b"), "é b");
    }
}
