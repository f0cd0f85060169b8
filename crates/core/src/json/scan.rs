//! Reads JSON texts without keeping anything of them: where a value begins and where it ends.

use super::{DEPTH_MAX, JsonError};

/// The two things that nest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Array,
    Object,
}

/// A position in a JSON text, and the containers that are open there.
pub(super) struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
    /// One bit for each open container, the innermost lowest; set for objects.
    objects: u128,
}

const _: () = assert!(DEPTH_MAX <= u128::BITS, "`objects` has a bit for each level");

impl<'a> Scan<'a> {
    /// UTF-8 is checked up front, in one fast pass; behind it only ASCII bytes matter.
    pub(super) fn new(text: &'a [u8]) -> Result<Self, JsonError> {
        match std::str::from_utf8(text) {
            Ok(_) => Ok(Self { text, at: 0, depth: 0, objects: 0 }),
            Err(error) => Err(JsonError::Utf8 { at: error.valid_up_to() }),
        }
    }

    /// How many bytes have been read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Enters an array, if one begins here.
    pub(super) fn open_array(&mut self) -> Result<bool, JsonError> {
        let array = self.eat(b'[');
        if array {
            self.open(Container::Array)?;
        }
        Ok(array)
    }

    /// Reads one value and returns its text, from its first byte to its last.
    pub(super) fn value(&mut self) -> Result<&'a [u8], JsonError> {
        let (start, base) = (self.at, self.depth);
        loop {
            // Here a value begins.
            match self.peek() {
                Some(b'"') => self.string()?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.word("true")?,
                Some(b'f') => self.word("false")?,
                Some(b'n') => self.word("null")?,
                Some(b'[') => {
                    self.at += 1;
                    self.open(Container::Array)?;
                    self.white_space();
                    if !self.eat(b']') {
                        continue;
                    }
                    self.close();
                }
                Some(b'{') => {
                    self.at += 1;
                    self.open(Container::Object)?;
                    self.white_space();
                    if !self.eat(b'}') {
                        self.name()?;
                        continue;
                    }
                    self.close();
                }
                _ => return Err(self.expected("a value")),
            }
            // Here one has ended, and with it perhaps the containers around it.
            if !self.next_value(base)? {
                return Ok(&self.text[start..self.at]);
            }
        }
    }

    /// Goes on to the next value inside the containers above `base`, closing those that end
    /// before it. False when all of them have.
    fn next_value(&mut self, base: u32) -> Result<bool, JsonError> {
        while self.depth > base {
            self.white_space();
            if self.objects & 1 == 1 {
                if self.eat(b',') {
                    self.white_space();
                    self.name()?;
                    return Ok(true);
                }
                if !self.eat(b'}') {
                    return Err(self.expected("',' or '}'"));
                }
            } else {
                if self.eat(b',') {
                    self.white_space();
                    return Ok(true);
                }
                if !self.eat(b']') {
                    return Err(self.expected("',' or ']'"));
                }
            }
            self.close();
        }
        Ok(false)
    }

    /// Enters the container whose bracket was just eaten.
    fn open(&mut self, container: Container) -> Result<(), JsonError> {
        if self.depth == DEPTH_MAX {
            return Err(JsonError::TooDeep { at: self.at - 1 });
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(container == Container::Object);
        Ok(())
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
    }

    /// A member's name, its colon, and the white space around that.
    fn name(&mut self) -> Result<(), JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a name in double quotes"));
        }
        self.string()?;
        self.white_space();
        if !self.eat(b':') {
            return Err(self.expected("':'"));
        }
        self.white_space();
        Ok(())
    }

    /// A string, from quote to quote.
    fn string(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        loop {
            self.at += plain_len(&self.text[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.expected("an escape for the control character")),
                None => return Err(self.expected("'\"'")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|b| b.is_ascii_hexdigit()) {
                        return Err(self.expected("a hexadecimal digit"));
                    }
                    self.at += 1;
                }
            }
            _ => {
                return Err(
                    self.expected("one of the escapes \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u")
                );
            }
        }
        Ok(())
    }

    /// ```text
    /// [ "-" ] ( "0" / digit1-9 *digit ) [ "." 1*digit ] [ ("e"/"E") [ "+"/"-" ] 1*digit ]
    /// ```
    fn number(&mut self) -> Result<(), JsonError> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    fn word(&mut self, word: &'static str) -> Result<(), JsonError> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(())
    }

    pub(super) fn white_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Nothing but white space is left.
    pub(super) fn end(&mut self) -> Result<(), JsonError> {
        self.white_space();
        if self.at < self.text.len() { Err(self.expected("the end of the body")) } else { Ok(()) }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    pub(super) fn expected(&self, expected: &'static str) -> JsonError {
        JsonError::Syntax { at: self.at, expected }
    }
}

/// How many bytes at the start of `text` stand for themselves in a string: neither a quote, nor a
/// backslash, nor a control character. Looks at eight bytes at a time, as strings are most of what
/// JSON is.
pub(super) fn plain_len(text: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    /// The high bit of the lowest byte that is zero, and perhaps some above it.
    const fn zero_bytes(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word & HIGHS
    }

    let (words, _) = text.as_chunks::<8>();
    for (index, bytes) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let quote = zero_bytes(word ^ (ONES * u64::from(b'"')));
        let backslash = zero_bytes(word ^ (ONES * u64::from(b'\\')));
        let special = control | quote | backslash;
        // A borrow can only reach upwards, so the lowest mark is always true.
        if special != 0 {
            return index * 8 + (special.trailing_zeros() / 8) as usize;
        }
    }
    let rest = words.len() * 8;
    let special = |b: &u8| matches!(b, 0..0x20 | b'"' | b'\\');
    rest + text[rest..].iter().position(special).unwrap_or(text.len() - rest)
}
