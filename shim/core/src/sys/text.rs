//! A line of text in a fixed buffer. What does not fit is cut off; nothing is allocated and nothing fails.

/// Room for one line of a message.
pub struct Text {
    bytes: [u8; Self::ROOM],
    length: usize,
}

impl Text {
    /// Bytes of a line, the final newline included.
    pub const ROOM: usize = 512;

    /// An empty line.
    pub const fn new() -> Self {
        Self { bytes: [0; Self::ROOM], length: 0 }
    }

    /// What was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Appends text.
    pub fn str(&mut self, text: &str) -> &mut Self {
        self.raw(text.as_bytes())
    }

    /// Appends one byte as it is (paths).
    pub fn byte(&mut self, byte: u8) -> &mut Self {
        self.raw(&[byte])
    }

    /// Appends bytes of unknown origin; what is not printable ASCII becomes `?`.
    pub fn foreign(&mut self, bytes: &[u8]) -> &mut Self {
        for &byte in bytes {
            let shown = if (0x20..0x7f).contains(&byte) { byte } else { b'?' };
            self.raw(&[shown]);
        }
        self
    }

    /// Appends a decimal number.
    pub fn dec(&mut self, mut value: u64) -> &mut Self {
        let mut digits = [0_u8; 20];
        let mut first = digits.len();
        loop {
            first -= 1;
            if let Some(digit) = digits.get_mut(first) {
                *digit = b'0' + (value % 10) as u8;
            }
            value /= 10;
            if value == 0 || first == 0 {
                break;
            }
        }
        self.raw(digits.get(first..).unwrap_or_default())
    }

    /// Appends a hexadecimal number of at least `width` digits, without a prefix.
    pub fn hex(&mut self, value: u64, width: u32) -> &mut Self {
        let digits = (64 - value.leading_zeros()).div_ceil(4).max(width).clamp(1, 16);
        for place in (0..digits).rev() {
            let digit = (value >> (place * 4)) as u8 & 15;
            self.raw(&[if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }]);
        }
        self
    }

    /// Appends a number of bytes: in MiB where it is a whole number of them, else exact.
    pub fn size(&mut self, bytes: u64) -> &mut Self {
        if bytes.is_multiple_of(1 << 20) { self.dec(bytes >> 20).str(" MiB") } else { self.dec(bytes).str(" B") }
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        for &byte in bytes {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
        self
    }

    /// Ends the line; the newline is there even if the text had to be cut.
    pub(super) fn end(&mut self) -> &[u8] {
        self.length = self.length.min(Self::ROOM - 1);
        self.raw(b"\n");
        self.as_bytes()
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    fn made(fill: impl Fn(&mut Text)) -> String {
        let mut text = Text::new();
        fill(&mut text);
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn numbers_are_written_as_people_read_them() {
        assert_eq!(made(|text| _ = text.dec(0).str(" ").dec(u64::MAX)), "0 18446744073709551615");
        assert_eq!(made(|text| _ = text.hex(0, 4).str(" ").hex(0xc3, 2).str(" ").hex(u64::MAX, 1)), "0000 c3 ffffffffffffffff");
        assert_eq!(made(|text| _ = text.size(64 << 20).str(", ").size(4097)), "64 MiB, 4097 B");
    }

    #[test]
    fn a_long_line_is_cut_and_still_ends() {
        let mut text = Text::new();
        text.foreign(&[b'x'; 2000]).foreign(b"\x1b[0m");
        let line = text.end();
        assert_eq!((line.len(), line.last()), (Text::ROOM, Some(&b'\n')));
        assert_eq!(made(|text| _ = text.foreign(b"\x1b[0m")), "?[0m");
    }
}
